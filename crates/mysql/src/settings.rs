//! What a pipeline needs to know of its MySQL or MariaDB source.

use std::path::PathBuf;

use sha2::Digest;

use crate::config::ConnectConfig;
use crate::conversions::Conversions;

/// Replica numbers that calve takes for itself. People count from 1; cloud services use larger ones, below this.
const FIRST_SERVER_ID: u32 = 0x8000_0000;

/// The settings of a pipeline.
#[derive(Clone, Debug)]
pub struct MySqlSettings {
    /// Where the server is.
    pub connect: ConnectConfig,
    /// The number to register as a replica with: unique among the server's replicas and unlike the server's own.
    pub server_id: u32,
    /// Connections that read tables side by side.
    pub load_parallelism: usize,
    /// Bytes of the stream read ahead of the decoder.
    pub read_ahead_bytes: usize,
    /// How values become those of the lake, where that is a choice.
    pub conversions: Conversions,
    /// Bytes that a checkpoint is meant to take. An event beyond it costs what it is, and is told of.
    pub checkpoint_bytes: u64,
    /// Where transactions too large for memory are put meanwhile.
    pub spill_dir: PathBuf,
}

impl MySqlSettings {
    /// The settings of a pipeline of this name. The replica's number is derived from the name and the server's address: the
    /// same at every start, so that a connection left over from the last one is ended by the server.
    pub fn new(connect: ConnectConfig, pipeline: &str) -> Self {
        let hash = sha2::Sha256::digest(format!("{pipeline}\0{}", connect.host_port()).as_bytes());
        let hash = hash.iter().take(4).fold(0_u32, |hash, byte| hash << 8 | u32::from(*byte));
        Self {
            connect,
            server_id: FIRST_SERVER_ID | hash,
            load_parallelism: 2,
            read_ahead_bytes: 16 << 20,
            conversions: Conversions::default(),
            checkpoint_bytes: u64::MAX,
            spill_dir: std::env::temp_dir(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_replica_stays_and_differs_by_pipeline_and_host() {
        let id = |url: &str, pipeline: &str| MySqlSettings::new(ConnectConfig::parse(url).unwrap(), pipeline).server_id;
        let one = id("mysql://u@h:1/d", "a");
        assert_eq!(one, id("mysql://other:x@h:1/e", "a"));
        assert!(one != id("mysql://u@h:1/d", "b") && one != id("mysql://u@h:2/d", "a"));
        assert!(one >= FIRST_SERVER_ID);
    }
}
