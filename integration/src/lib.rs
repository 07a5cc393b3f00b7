//! What the tests on real servers and the crash suite share: the calve binary as a process, a source, a lake, and the
//! comparison of the two through readers that share no code with calve.
//!
//! Nothing here links calve: what is tested is the binary that users run.

pub mod avro;
pub mod bench;
pub mod binary;
pub mod compare;
pub mod crash;
pub mod directory;
pub mod foreign;
pub mod lake;
pub mod masks;
pub mod migrate;
pub mod pipeline;
pub mod random;
pub mod readers;
pub mod soak;
pub mod sql;
