//! Placeholder.

pub mod readers;
pub mod servers;
pub mod sim;
