//! A table over tens of thousands of commits.
