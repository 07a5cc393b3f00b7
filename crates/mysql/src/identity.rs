//! What identifies the log of a server, and whether the log found now is the one that was remembered.
//!
//! GTIDs name transactions on every server, so with them another server may take over; a place in a file is one server's.

use calve_core::{BinlogOffset, Error, ErrorKind, GtidSet, MariaDbPosition, Position, Result, SourceIdentity};
use serde::{Deserialize, Serialize};

use crate::binlog::Flavour;
use crate::server::{LogFile, Server};

/// Kept in every stamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "log", rename_all = "snake_case")]
pub(crate) enum LogIdentity {
    /// MySQL, read by GTIDs.
    MySqlGtid,
    /// MariaDB, read by GTIDs; `server` is the one that it was read from, which may change.
    MariaDb { server: String },
    /// MySQL, read by file and offset: of this server only.
    MySqlFiles { server_uuid: String },
}

impl LogIdentity {
    pub(crate) fn of(server: &Server) -> Self {
        match server.flavour {
            Flavour::MariaDb => {
                Self::MariaDb { server: server.uid.clone().unwrap_or_else(|| server.server_id.to_string()) }
            }
            Flavour::MySql if server.has_gtids() => Self::MySqlGtid,
            Flavour::MySql => {
                Self::MySqlFiles { server_uuid: server.uuid.map(|uuid| uuid.to_string()).unwrap_or_default() }
            }
        }
    }

    pub(crate) fn to_source(&self) -> Result<SourceIdentity> {
        let text = serde_json::to_string(self)
            .map_err(|error| Error::with_source(ErrorKind::Bug, "the identity of the log cannot be written", error))?;
        Ok(SourceIdentity(text))
    }

    pub(crate) fn from_source(identity: &SourceIdentity) -> Result<Self> {
        serde_json::from_str(&identity.0).map_err(|error| {
            let message = format!(
                "the tables were replicated from another kind of source ({}); give the pipeline another name, or run `calve \
                 reload --all`",
                identity.0
            );
            Error::with_source(ErrorKind::SourceGone, message, error)
        })
    }
}

/// How far a server's log is and from where on it still is there, by GTIDs.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogReach {
    /// MySQL: everything executed.
    pub(crate) executed: GtidSet,
    /// MySQL: what of it is not in the log any more.
    pub(crate) purged: GtidSet,
    /// MariaDB: the last transaction of every domain in the log.
    pub(crate) binlog: MariaDbPosition,
    /// The files of the log.
    pub(crate) files: Vec<LogFile>,
}

impl LogReach {
    /// Whether the log has a place.
    fn holds(&self, at: &BinlogOffset) -> bool {
        self.files.iter().any(|file| file.name == *at.file && file.bytes >= at.offset)
    }
}

/// Refuses a log that is not, or may not be, the one in which `at` was read.
pub(crate) fn same_log(now: &LogIdentity, before: &LogIdentity, at: &Position, reach: &LogReach) -> Result<()> {
    let gone = |message: String| Err(Error::new(ErrorKind::SourceGone, message));
    let follows = matches!((now, before), (LogIdentity::MariaDb { .. }, LogIdentity::MariaDb { .. }));
    if now != before && !follows {
        return match (before, now) {
            (LogIdentity::MySqlFiles { server_uuid: old }, LogIdentity::MySqlFiles { server_uuid: new }) => gone(format!(
                "this is another server (server_uuid {new}, not {old}), and without GTIDs its log says nothing of how far the \
                 tables are: connect to the old one, or run `calve reload --all`; with gtid_mode = ON a failover is followed"
            )),
            (LogIdentity::MySqlFiles { .. }, LogIdentity::MySqlGtid) => gone(
                "gtid_mode was switched on since the tables were replicated by file and offset; run `calve reload --all` once, \
                 and failovers are followed from then on"
                    .into(),
            ),
            (LogIdentity::MySqlGtid, LogIdentity::MySqlFiles { .. }) => gone(
                "gtid_mode was switched off since the tables were replicated by GTIDs; set it to ON again, or run `calve reload \
                 --all`"
                    .into(),
            ),
            _ => gone(format!(
                "the tables were replicated from another kind of server ({before:?}, now {now:?}); run `calve reload --all`"
            )),
        };
    }
    match at {
        Position::MySql(at) if !reach.executed.is_superset(&at.executed) => gone(format!(
            "the server has not executed {}, which is replicated: it was reset, restored from a backup, or promoted without these \
             transactions; run `calve reload --all`, or connect to the server that has them",
            at.executed.difference(&reach.executed)
        )),
        Position::MySql(at) if reach.purged.intersection(&at.open).is_empty() => Ok(()),
        Position::MySql(_) => gone(
            "position lost: the log no longer holds rows of an XA transaction that is prepared; run `calve reload --all`".into(),
        ),
        Position::MariaDb(at) => {
            let ahead = at.domains.iter().find(|(domain, point)| {
                reach.binlog.domains.get(domain).is_none_or(|now| now.applied.sequence < point.applied.sequence)
            });
            match ahead {
                Some((domain, point)) => gone(format!(
                    "the server's log does not reach {domain}-{}-{}, which is replicated: it was reset, restored from a backup, \
                     or promoted without that transaction; run `calve reload --all`, or connect to the server that has it",
                    point.applied.server, point.applied.sequence
                )),
                None => Ok(()),
            }
        }
        // Whether the file is the one of then is seen at its beginning, see `transactions`.
        Position::Binlog(at) => match [Some(&at.applied), at.resume.as_ref()].into_iter().flatten().find(|at| !reach.holds(at)) {
            None => Ok(()),
            Some(missing) => gone(format!(
                "position lost: the log does not hold the place {missing}, up to which the tables are replicated: it was purged, \
                 reset, or restored from a backup; run `calve reload --all`"
            )),
        },
        Position::Postgres(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn reach(executed: &str, purged: &str, binlog: &str) -> LogReach {
        let set = |text: &str| text.replace("SERVER", SERVER).parse().unwrap();
        let files = vec![LogFile { name: "b.000001".into(), bytes: 100 }];
        LogReach { executed: set(executed), purged: set(purged), binlog: binlog.parse().unwrap(), files }
    }

    fn at(text: &str) -> Position {
        text.replace("SERVER", SERVER).parse().unwrap()
    }

    #[test]
    fn only_a_log_that_holds_what_was_replicated_is_read_on() {
        let files = |uuid: &str| LogIdentity::MySqlFiles { server_uuid: uuid.into() };
        let maria = |server: &str| LogIdentity::MariaDb { server: server.into() };
        let gtid = LogIdentity::MySqlGtid;
        let all = reach("SERVER:1-9", "SERVER:1-4", "0-1-9");
        for (now, before, position, same) in [
            (gtid.clone(), gtid.clone(), "mysql:SERVER:1-9", true),
            (gtid.clone(), gtid.clone(), "mysql:SERVER:1-10", false),
            (gtid.clone(), gtid.clone(), "mysql:SERVER:1-9;open=SERVER:5", true),
            (gtid.clone(), gtid.clone(), "mysql:SERVER:1-9;open=SERVER:4", false),
            (files("a"), gtid.clone(), "mysql:SERVER:1-9", false),
            (gtid.clone(), files("a"), "binlog:b.000001:4;created=1", false),
            (files("a"), files("a"), "binlog:b.000001:4;created=1", true),
            (files("a"), files("a"), "binlog:b.000001:100;created=1", true),
            (files("a"), files("a"), "binlog:b.000001:101;created=1", false),
            (files("a"), files("a"), "binlog:b.000002:4;created=1", false),
            (files("a"), files("a"), "binlog:b.000001:9;created=1;resume=b.000000:4", false),
            (files("a"), files("b"), "binlog:b.000001:4;created=1", false),
            (maria("1"), maria("2"), "mariadb:0-2-9", true),
            (maria("1"), maria("1"), "mariadb:0-1-10", false),
            (maria("1"), maria("1"), "mariadb:1-1-1", false),
            (maria("1"), gtid, "mysql:SERVER:1", false),
        ] {
            let result = same_log(&now, &before, &at(position), &all);
            assert_eq!(result.is_ok(), same, "{now:?} for {before:?} at {position}: {result:?}");
            if let Err(error) = result {
                assert!(error.kind() == ErrorKind::SourceGone && error.to_string().contains("reload"), "{error}");
            }
        }
    }

    #[test]
    fn identities_read_back_as_written() {
        for identity in [
            LogIdentity::MySqlGtid,
            LogIdentity::MariaDb { server: "1".into() },
            LogIdentity::MySqlFiles { server_uuid: "u".into() },
        ] {
            assert_eq!(LogIdentity::from_source(&identity.to_source().unwrap()).unwrap(), identity);
        }
        assert!(LogIdentity::from_source(&SourceIdentity("7412/1/db/slot".into())).is_err());
    }
}
