//! Tools for tests: real servers, independent readers of the tables, and a simulation of everything around the engine.

pub mod readers;
pub mod servers;
pub mod sim;
pub mod speed;
