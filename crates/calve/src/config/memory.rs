//! How `memory`, the most that a process is meant to use, is shared out.
//!
//! Beside a base (code, caches, connections), up to three checkpoints are in memory at once: one being filled, one that waits,
//! one being encoded. Their columns grow by doubling, and what is encoded is there a second time as pages. So a checkpoint
//! gets a sixth of what the base leaves. `integration/tests/all/memory.rs` holds calve to it.

/// The default, in bytes.
pub(super) const DEFAULT: u64 = 512_000_000;
/// What is needed whatever is replicated.
const BASE: u64 = 96 << 20;
/// The least that leaves checkpoints of a useful size.
const LEAST: u64 = 128_000_000;
/// Of checkpoints, where memory allows it.
const CHECKPOINT: u64 = 64 << 20;
/// Of the log read ahead of the decoder, where memory allows it.
const READ_AHEAD: u64 = 16 << 20;
/// What a file being encoded takes: a row group, its pages and the rows they are made from.
const ENCODER: u64 = 96 << 20;
/// What a connection of a load takes: what it sends ahead, and a batch of columns.
const LOAD_CONNECTION: u64 = 24 << 20;

/// The most memory that the process is meant to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory(u64);

impl Memory {
    pub(super) fn new(bytes: u64) -> Result<Self, String> {
        if bytes < LEAST {
            return Err(format!("must be at least {}MB", LEAST / 1_000_000));
        }
        Ok(Self(bytes))
    }

    fn share(self, of: u64) -> u64 {
        (self.0 - BASE) / of
    }

    /// What a checkpoint may take at most, in bytes.
    fn largest_checkpoint(self) -> u64 {
        self.share(6)
    }

    /// What a checkpoint takes unless it is said.
    pub(super) fn checkpoint(self) -> u64 {
        CHECKPOINT.min(self.largest_checkpoint())
    }

    /// Refuses checkpoints that do not fit.
    pub(super) fn holds_checkpoints_of(self, bytes: u64) -> Result<(), String> {
        let largest = self.largest_checkpoint();
        if bytes <= largest {
            return Ok(());
        }
        Err(format!(
            "checkpoints of {bytes} bytes do not fit into memory of {}, which has room for {largest}; set 'memory: {}MB'",
            self.0,
            (bytes * 6 + BASE).div_ceil(1_000_000)
        ))
    }

    /// Connections that a load may have at most.
    fn most_connections(self) -> u64 {
        self.share(LOAD_CONNECTION).max(1)
    }

    /// Connections of a load unless it is said.
    pub(super) fn connections(self) -> usize {
        usize::try_from(self.most_connections()).map_or(2, |most| most.min(2))
    }

    /// Refuses loads over more connections than fit.
    pub(super) fn holds_connections(self, count: usize) -> Result<(), String> {
        let count = count as u64;
        if count <= self.most_connections() {
            return Ok(());
        }
        Err(format!(
            "loads over {count} connections do not fit into memory of {} bytes, which has room for {}; set 'memory: {}MB'",
            self.0,
            self.most_connections(),
            (count * LOAD_CONNECTION + BASE).div_ceil(1_000_000)
        ))
    }

    /// Bytes of the log that are read ahead of the decoder.
    pub(crate) fn read_ahead(self) -> usize {
        usize::try_from(READ_AHEAD.min(self.share(24))).unwrap_or(1 << 20)
    }

    /// Files that are encoded at a time, however many processors there are.
    pub(crate) fn encoders(self) -> usize {
        usize::try_from(self.share(ENCODER).max(1)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_changes_no_other_default() {
        let memory = Memory::new(DEFAULT).unwrap();
        assert_eq!((memory.checkpoint(), memory.connections(), memory.encoders()), (CHECKPOINT, 2, 4));
        assert!(memory.read_ahead() > 15 << 20);
    }

    #[test]
    fn the_least_leaves_room_for_everything() {
        assert!(Memory::new(LEAST - 1).unwrap_err().contains("128MB"));
        let memory = Memory::new(LEAST).unwrap();
        assert!(memory.checkpoint() >= 4 << 20 && memory.read_ahead() >= 1 << 20);
        assert_eq!((memory.connections(), memory.encoders()), (1, 1));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let memory = Memory::new(DEFAULT).unwrap();
        let refused = memory.holds_checkpoints_of(128 << 20).unwrap_err();
        assert!(refused.contains("set 'memory: 906MB'"), "{refused}");
        Memory::new(906_000_000).unwrap().holds_checkpoints_of(128 << 20).unwrap();
        let refused = memory.holds_connections(32).unwrap_err();
        assert!(refused.contains("has room for 16; set 'memory: 906MB'"), "{refused}");
        Memory::new(906_000_000).unwrap().holds_connections(32).unwrap();
        memory.holds_connections(16).unwrap();
    }
}
