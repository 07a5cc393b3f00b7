//! The captures that the tests of `binlog` read, as far as inputs are made of them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::shown::{self, Table};
use crate::binlog::Flavour;
use crate::binlog::event::{self, Event, Header, kind};

/// A log file, and the tables that it ends with.
pub(super) struct Capture {
    pub(super) flavour: Flavour,
    log: Vec<u8>,
    pub(super) tables: Vec<Table>,
}

/// All of them, in the order of their names.
pub(super) fn captures() -> &'static [Capture] {
    static CAPTURES: OnceLock<Vec<Capture>> = OnceLock::new();
    CAPTURES.get_or_init(|| {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/binlog/captures");
        let mut logs = Vec::new();
        for server in ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"] {
            let entries = std::fs::read_dir(directory.join(server)).expect("a directory of captures");
            let paths = entries.map(|entry| entry.expect("a capture").path());
            logs.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "binlog")));
        }
        logs.sort();
        logs.iter().map(|path| read(path)).collect()
    })
}

fn read(path: &Path) -> Capture {
    let flavour = if path.to_string_lossy().contains("mysql-") { Flavour::MySql } else { Flavour::MariaDb };
    let log = std::fs::read(path).expect("a log file");
    let tables = std::fs::read_to_string(path.with_extension("tsv")).expect("what a server says of the tables");
    Capture { flavour, log, tables: shown::tables(&tables) }
}

impl Capture {
    /// Headers and bodies of all events, without checksums; those inside a payload come after it.
    pub(super) fn events(&self) -> Vec<(Header, Vec<u8>)> {
        let mut events = Vec::new();
        let mut rest = self.log.get(4..).unwrap_or_default();
        let mut checksums = true;
        while let Ok(header) = Header::parse(rest) {
            let (whole, after) = rest.split_at((header.size as usize).min(rest.len()));
            rest = after;
            let mut body = whole.get(Header::LENGTH..).unwrap_or_default();
            if header.kind == kind::FORMAT_DESCRIPTION {
                // The algorithm stands before the checksum, which this event has either way.
                body = &body[..body.len() - 4];
                checksums = body.last() == Some(&1);
            } else if checksums {
                body = &body[..body.len() - 4];
            }
            events.push((header, body.to_vec()));
            if let Ok(Event::Payload(payload)) = event::parse(self.flavour, &header, body)
                && let Ok(mut inner) = payload.events()
            {
                while let Some(Ok((header, body))) = inner.next() {
                    events.push((header, body.to_vec()));
                }
            }
        }
        events
    }
}
