//! What identifies the log that a pipeline reads, and whether a log found later is still that one.

use calve_core::{Error, ErrorKind, Lsn, Result, SourceIdentity};
use serde::{Deserialize, Serialize};

/// The identity as it is kept in stamps, in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogIdentity {
    /// Of the cluster; made by initdb, the same on its standbys.
    pub(crate) system: String,
    /// Counts promotions and point-in-time recoveries.
    pub(crate) timeline: u32,
    pub(crate) database: String,
    pub(crate) slot: String,
}

impl LogIdentity {
    pub(crate) fn to_source(&self) -> Result<SourceIdentity> {
        serde_json::to_string(self)
            .map(SourceIdentity)
            .map_err(|error| Error::with_source(ErrorKind::Bug, "the log's identity cannot be written", error))
    }

    pub(crate) fn from_source(identity: &SourceIdentity) -> Result<Self> {
        serde_json::from_str(&identity.0).map_err(|_| {
            Error::new(
                ErrorKind::SourceGone,
                format!(
                    "the lake was filled from another kind of source ({}), not from this Postgres: use another lake or pipeline",
                    identity.0
                ),
            )
        })
    }
}

/// Where each past timeline of a cluster ended, from its history file (`TIMELINE_HISTORY`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimelineHistory(Vec<(u32, Lsn)>);

impl TimelineHistory {
    /// Lines of `timeline <tab> switch point <tab> reason`; empty ones and comments are passed over.
    pub(crate) fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut fields = line.split_whitespace();
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        };
        Self(text.lines().filter(|l| !l.trim_start().starts_with('#')).filter_map(line).collect())
    }

    fn end_of(&self, timeline: u32) -> Option<Lsn> {
        self.0.iter().find(|(number, _)| *number == timeline).map(|(_, end)| *end)
    }
}

/// Whether reading on from `at` in the log `now` goes on where the log `before` was left.
pub(crate) fn same_log(now: &LogIdentity, before: &LogIdentity, at: Lsn, history: &TimelineHistory) -> Result<()> {
    let refused = |message: String| Err(Error::new(ErrorKind::SourceGone, message));
    if now.system != before.system {
        return refused(format!(
            "this is another Postgres cluster (system identifier {}) than the one the lake was filled from ({}): give the \
             address of that one, or run `calve reload --all` to read the tables anew from here",
            now.system, before.system
        ));
    }
    if now.database != before.database {
        return refused(format!(
            "this is database {}, and the lake was filled from database {}: give that one in the source's URL, or use another \
             pipeline name",
            now.database, before.database
        ));
    }
    if now.slot != before.slot {
        return refused(format!(
            "this pipeline reads replication slot {}, and the lake was filled through slot {}: name that one, or run `calve \
             reload --all`",
            now.slot, before.slot
        ));
    }
    if now.timeline == before.timeline {
        return Ok(());
    }
    let gap = "changes may be missing or different from there on: run `calve reload --all` to read the tables again";
    match history.end_of(before.timeline) {
        Some(end) if at <= end => Ok(()),
        Some(end) => refused(format!(
            "the server was promoted or restored: it left timeline {} at {end}, before {at} which the lake was filled up to; {gap}",
            before.timeline
        )),
        None => refused(format!(
            "the server is on timeline {}, whose history does not tell where it left timeline {} that the lake was filled \
             from; {gap}",
            now.timeline, before.timeline
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(system: &str, timeline: u32) -> LogIdentity {
        LogIdentity { system: system.into(), timeline, database: "d".into(), slot: "s".into() }
    }

    #[test]
    fn an_identity_reads_back_as_written() {
        let log = identity("7300000000000000001", 3);
        assert_eq!(LogIdentity::from_source(&log.to_source().unwrap()).unwrap(), log);
        let other = SourceIdentity("mysql".into());
        assert_eq!(LogIdentity::from_source(&other).unwrap_err().kind(), ErrorKind::SourceGone);
    }

    #[test]
    fn only_a_log_that_goes_on_where_the_lake_ends_is_the_same() {
        let history =
            TimelineHistory::parse("1\t0/3000000\tno recovery target specified\n\n# x\n2\t0/5000000\tpromoted\n");
        let before = identity("1", 2);
        for (now, at, same) in [
            (identity("1", 2), 0x9_000_000, true),
            (identity("2", 2), 0x4_000_000, false),
            (LogIdentity { database: "e".into(), ..identity("1", 2) }, 0x4_000_000, false),
            (LogIdentity { slot: "t".into(), ..identity("1", 2) }, 0x4_000_000, false),
            // Promoted beyond, exactly at, and before what was read.
            (identity("1", 3), 0x4_000_000, true),
            (identity("1", 3), 0x5_000_000, true),
            (identity("1", 3), 0x5_000_001, false),
            // An older backup.
            (identity("1", 1), 0x4_000_000, false),
        ] {
            let history = if now.timeline == 3 { history.clone() } else { TimelineHistory::default() };
            let result = same_log(&now, &before, Lsn(at), &history);
            assert_eq!(result.is_ok(), same, "{now:?} at {at:#x}: {result:?}");
            if let Err(error) = result {
                assert_eq!(error.kind(), ErrorKind::SourceGone);
            }
        }
    }
}
