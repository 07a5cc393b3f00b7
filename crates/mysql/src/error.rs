//! Answers of the server that are errors, and what each means for the pipeline.
//!
//! Numbers are those of the MySQL and MariaDB manuals ("Server Error Message Reference", "MariaDB Error Code Reference").

use std::fmt;
use std::io;

use calve_core::{Error, ErrorKind};
use mysql_async::{DriverError, Error as SqlError, IoError, ServerError};

use crate::config::ConnectConfig;
use crate::sql::literal;

/// Error numbers that are told apart.
pub(crate) mod code {
    pub(crate) const TOO_MANY_CONNECTIONS: u16 = 1040;
    pub(crate) const DATABASE_ACCESS_DENIED: u16 = 1044;
    pub(crate) const ACCESS_DENIED: u16 = 1045;
    pub(crate) const NOT_READY: u16 = 1047;
    pub(crate) const UNKNOWN_DATABASE: u16 = 1049;
    pub(crate) const UNKNOWN_COLUMN: u16 = 1054;
    pub(crate) const HOST_BLOCKED: u16 = 1129;
    pub(crate) const HOST_NOT_ALLOWED: u16 = 1130;
    pub(crate) const TABLE_ACCESS_DENIED: u16 = 1142;
    pub(crate) const COLUMN_ACCESS_DENIED: u16 = 1143;
    pub(crate) const UNKNOWN_TABLE: u16 = 1146;
    pub(crate) const TOO_MANY_USER_CONNECTIONS: u16 = 1203;
    pub(crate) const LOCK_WAIT_TIMEOUT: u16 = 1205;
    pub(crate) const USER_LIMIT_REACHED: u16 = 1226;
    pub(crate) const PRIVILEGE_NEEDED: u16 = 1227;
    pub(crate) const LOG_CANNOT_BE_READ: u16 = 1236;
    pub(crate) const TABLE_CHANGED: u16 = 1412;
    pub(crate) const NEEDED_GTIDS_PURGED: u16 = 1789;
    pub(crate) const PASSWORD_EXPIRED: u16 = 1820;
    pub(crate) const PASSWORD_EXPIRED_AT_LOGIN: u16 = 1862;
    pub(crate) const SECURE_TRANSPORT_NEEDED: u16 = 3159;
    pub(crate) const ACCOUNT_LOCKED: u16 = 3118;
    /// The same in MariaDB.
    pub(crate) const ACCOUNT_LOCKED_MARIADB: u16 = 4151;
}

/// What passes by itself: no room for another connection, out of memory or disk, a node that joins its cluster, locks,
/// shutdown, network, a session or statement that was killed or took too long.
const PASSING: &[u16] = &[
    1021, 1037, 1040, 1041, 1047, 1053, 1077, 1078, 1079, 1080, 1105, 1135, 1152, 1154, 1155, 1156, 1157, 1158, 1159,
    1160, 1161, 1180, 1184, 1188, 1189, 1190, 1203, 1205, 1206, 1213, 1226, 1317, 1412, 1615, 1815, 1927, 1969, 3024,
    3101, 3168, 3169, 4031,
];

/// The error in the server's own words, in one line.
pub(crate) struct Said<'a>(pub(crate) &'a ServerError);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", one_line(&self.0.message), self.0.code)
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The error that the server sent, if it was the server.
pub(crate) fn server_error(error: &SqlError) -> Option<&ServerError> {
    match error {
        SqlError::Server(error) => Some(error),
        _ => None,
    }
}

/// What a repetition would do.
fn kind(error: &ServerError) -> ErrorKind {
    if PASSING.contains(&error.code) { ErrorKind::Retry } else { ErrorKind::Config }
}

/// The error of a statement or of the stream, with what was being done. A lost connection is tried again.
pub(crate) fn sql_error(what: impl fmt::Display, error: &SqlError) -> Error {
    let Some(server) = server_error(error) else {
        return Error::new(transport_kind(error), format!("{what}: the connection failed: {}", transport_text(error)));
    };
    let (kind, advice) = match server.code {
        code::LOG_CANNOT_BE_READ | code::NEEDED_GTIDS_PURGED => log_error(server),
        code::PRIVILEGE_NEEDED
        | code::TABLE_ACCESS_DENIED
        | code::COLUMN_ACCESS_DENIED
        | code::DATABASE_ACCESS_DENIED => (ErrorKind::Config, "run `calve check`, which says what to grant"),
        _ => (kind(server), ""),
    };
    Error::new(kind, format!("{what}: {}{}", Said(server), advised(advice)))
}

fn advised(advice: &str) -> String {
    if advice.is_empty() { String::new() } else { format!("; {advice}") }
}

/// What the server has against sending its log. It has one number for all of it (1236), so its words tell them apart
/// (MySQL: `rpl_binlog_sender.cc`, MariaDB: `sql_repl.cc`).
fn log_error(error: &ServerError) -> (ErrorKind, &'static str) {
    const LOST: &str = "position lost: this log no longer holds, or no longer is, what the lake was made from; run \
                        `calve reload` for the tables of this pipeline";
    /// Words, kind, advice.
    const WORDS: &[(&str, ErrorKind, &str)] = &[
        ("purged required binary logs", ErrorKind::SourceGone, LOST),
        ("purged binary logs containing gtids", ErrorKind::SourceGone, LOST),
        ("could not find first log file", ErrorKind::SourceGone, LOST),
        ("could not find next log", ErrorKind::SourceGone, LOST),
        ("could not find gtid state requested", ErrorKind::SourceGone, LOST),
        ("which is not in the master's binlog", ErrorKind::SourceGone, LOST),
        ("impossible position", ErrorKind::SourceGone, LOST),
        ("has more gtids than", ErrorKind::SourceGone, LOST),
        ("> file size", ErrorKind::SourceGone, LOST),
        ("bogus data in log event", ErrorKind::SourceGone, LOST),
        ("crc check", ErrorKind::SourceGone, LOST),
        ("binlog truncated in the middle of event", ErrorKind::SourceGone, LOST),
        (
            "exceeded max_allowed_packet",
            ErrorKind::Config,
            "run SET GLOBAL max_allowed_packet = 1073741824 and keep it in the server's configuration",
        ),
        ("binary log is not open", ErrorKind::Config, "start the server with log_bin"),
        ("server_id was not set", ErrorKind::Config, "give the server a server_id other than 0"),
        ("server id was not set", ErrorKind::Config, "give the server a server_id other than 0"),
        (
            "same server_uuid/server_id",
            ErrorKind::Conflict,
            "another replica, or another calve with this pipeline's name, reads with the same server_id: stop it, or set \
             server_id for one of them",
        ),
        ("gtid_mode = off", ErrorKind::Config, "set gtid_mode = ON, or start the pipeline anew without GTIDs"),
        ("checksum", ErrorKind::Config, "run SET GLOBAL binlog_checksum = CRC32 or NONE"),
    ];
    if error.code == code::NEEDED_GTIDS_PURGED {
        return (ErrorKind::SourceGone, LOST);
    }
    let said = error.message.to_ascii_lowercase();
    WORDS
        .iter()
        .find(|(words, ..)| said.contains(words))
        .map_or((ErrorKind::Retry, ""), |(_, kind, advice)| (*kind, advice))
}

/// The error of a connection that could not be opened, with what to do about it.
pub(crate) fn login_error(config: &ConnectConfig, error: &SqlError) -> Error {
    let Some(server) = server_error(error) else {
        let advice = match error {
            SqlError::Driver(DriverError::NoClientSslFlagFromServer) => {
                "the server has no TLS: give it a certificate, or write ssl-mode=DISABLED"
            }
            SqlError::Driver(DriverError::UnknownAuthPlugin { .. } | DriverError::CleartextPluginDisabled) => {
                // MySQL answers for users that do not exist as if they had some plugin or other.
                "check that the user exists, and let it log in with caching_sha2_password or mysql_native_password"
            }
            error if is_tls(error) => {
                "check ssl-ca and the names in the server's certificate, which must be of X.509 version 3; ssl-mode=REQUIRED \
                 does not check it"
            }
            SqlError::Io(IoError::Io(cause)) if cause.kind() == io::ErrorKind::ConnectionRefused => {
                "check host and port, and that the server listens there (bind_address)"
            }
            _ => "",
        };
        let what = format!("cannot connect to {config}: {}", transport_text(error));
        return Error::new(transport_kind(error), format!("{what}{}", advised(advice)));
    };
    let user = literal(&config.user);
    let (kind, advice) = match server.code {
        code::ACCESS_DENIED => {
            let advice = match (&config.password, &config.password_note) {
                (Some(_), _) => "check user and password, and from which hosts the user may connect".to_owned(),
                (None, Some(note)) => note.clone(),
                (None, None) => {
                    "no password was given: put it into the connection URL, MYSQL_PWD or ~/.my.cnf".to_owned()
                }
            };
            (ErrorKind::Config, advice)
        }
        code::DATABASE_ACCESS_DENIED => {
            let database = crate::sql::identifier(config.database.as_deref().unwrap_or("mysql"));
            (
                ErrorKind::Config,
                format!("run GRANT SELECT ON {database}.* TO {user}@'%', or leave the database out of the URL"),
            )
        }
        code::UNKNOWN_DATABASE => {
            (ErrorKind::Config, "check the database name at the end of the connection URL".to_owned())
        }
        code::HOST_NOT_ALLOWED => (
            ErrorKind::Config,
            format!("create the user for this machine's address, such as CREATE USER {user}@'%' ..."),
        ),
        code::HOST_BLOCKED => {
            (ErrorKind::Config, "run FLUSH HOSTS, or TRUNCATE performance_schema.host_cache".to_owned())
        }
        code::TOO_MANY_CONNECTIONS => (ErrorKind::Retry, "if it stays so, raise max_connections".to_owned()),
        code::TOO_MANY_USER_CONNECTIONS | code::USER_LIMIT_REACHED => {
            let advice = format!("if it stays so, run ALTER USER {user}@'%' WITH MAX_USER_CONNECTIONS 0");
            (ErrorKind::Retry, advice)
        }
        code::PASSWORD_EXPIRED | code::PASSWORD_EXPIRED_AT_LOGIN => {
            (ErrorKind::Config, format!("run ALTER USER {user}@'%' PASSWORD EXPIRE NEVER, or change the password"))
        }
        code::ACCOUNT_LOCKED | code::ACCOUNT_LOCKED_MARIADB => {
            (ErrorKind::Config, format!("run ALTER USER {user}@'%' ACCOUNT UNLOCK"))
        }
        code::SECURE_TRANSPORT_NEEDED => (ErrorKind::Config, "write ssl-mode=REQUIRED".to_owned()),
        code::NOT_READY => (ErrorKind::Retry, "the node is not part of its cluster now".to_owned()),
        _ => (kind(server), String::new()),
    };
    Error::new(kind, format!("cannot log in to {config}: {}{}", Said(server), advised(&advice)))
}

/// Errors that are not the server's: the network passes, the rest must be mended.
fn transport_kind(error: &SqlError) -> ErrorKind {
    match error {
        SqlError::Io(IoError::Io(cause)) if !is_tls(error) => match cause.kind() {
            // The file of a key or certificate; the socket's file comes back with the server.
            io::ErrorKind::PermissionDenied => ErrorKind::Config,
            _ => ErrorKind::Retry,
        },
        // A certificate that cannot be checked does not mend itself.
        SqlError::Io(_)
        | SqlError::Url(_)
        | SqlError::Driver(
            DriverError::NoClientSslFlagFromServer
            | DriverError::UnknownAuthPlugin { .. }
            | DriverError::MysqlOldPasswordDisabled
            | DriverError::CleartextPluginDisabled
            | DriverError::NoKeyFound
            | DriverError::PacketTooLarge,
        ) => ErrorKind::Config,
        SqlError::Driver(_) | SqlError::Other(_) | SqlError::Server(_) => ErrorKind::Retry,
    }
}

/// Whether it was the handshake of TLS that failed. rustls hands such an error over inside one of I/O.
pub(crate) fn is_tls(error: &SqlError) -> bool {
    match error {
        SqlError::Io(IoError::Tls(_)) => true,
        SqlError::Io(IoError::Io(cause)) => {
            cause.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
        }
        _ => false,
    }
}

fn transport_text(error: &SqlError) -> String {
    match error {
        SqlError::Io(IoError::Io(cause)) if is_tls(error) => format!("TLS: {}", one_line(&cause.to_string())),
        SqlError::Io(IoError::Io(cause)) => one_line(&cause.to_string()),
        SqlError::Io(IoError::Tls(cause)) => format!("TLS: {}", one_line(&cause.to_string())),
        // Its own text would show the packet, or a value.
        SqlError::Driver(DriverError::UnexpectedPacket { .. }) => {
            "the server sent what it should not send here".to_owned()
        }
        SqlError::Driver(DriverError::FromRow { .. } | DriverError::FromValue { .. }) => {
            "the server answered with a value of another type than expected".to_owned()
        }
        SqlError::Driver(cause) => one_line(&cause.to_string()),
        other => one_line(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: u16, message: &str) -> SqlError {
        SqlError::Server(ServerError { code, message: message.to_owned(), state: "HY000".to_owned() })
    }

    #[test]
    fn each_refusal_of_the_log_has_its_kind() {
        for (message, kind) in [
            (
                "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from \
                 elsewhere, or provision a new replica from backup.",
                ErrorKind::SourceGone,
            ),
            ("Could not find first log file name in binary log index file", ErrorKind::SourceGone),
            (
                "Error: connecting slave requested to start from GTID 0-1-9, which is not in the master's binlog",
                ErrorKind::SourceGone,
            ),
            (
                "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and \
                 required binlog files have been purged.",
                ErrorKind::SourceGone,
            ),
            ("Client requested source to start replication from position > file size", ErrorKind::SourceGone),
            ("Client requested master to start replication from impossible position", ErrorKind::SourceGone),
            (
                "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may indicate that ..",
                ErrorKind::SourceGone,
            ),
            ("bogus data in log event; the first event 'b.000001' at 4, ..", ErrorKind::SourceGone),
            (
                "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source; ..",
                ErrorKind::Config,
            ),
            ("Binary log is not open", ErrorKind::Config),
            (
                "A replica with the same server_uuid/server_id as this replica has connected to the source; the first event ..",
                ErrorKind::Conflict,
            ),
            ("something else", ErrorKind::Retry),
        ] {
            let error = sql_error("cannot read the log", &said(1236, message));
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn logins_say_what_mends_them_and_never_the_password() {
        let config = ConnectConfig::parse("mysql://u:hunter2@h/d").unwrap();
        for (code, kind, expected) in [
            (1045, ErrorKind::Config, "check user and password"),
            (1044, ErrorKind::Config, "GRANT SELECT ON `d`.* TO 'u'@'%'"),
            (1049, ErrorKind::Config, "database name"),
            (1040, ErrorKind::Retry, "max_connections"),
            (1226, ErrorKind::Retry, "MAX_USER_CONNECTIONS"),
            (1053, ErrorKind::Retry, "h:3306"),
            (3159, ErrorKind::Config, "ssl-mode=REQUIRED"),
        ] {
            let error = login_error(&config, &said(code, "said so"));
            assert_eq!(error.kind(), kind, "{code}: {error}");
            assert!(error.to_string().contains(expected), "{code}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let refused = SqlError::Io(IoError::Io(io::Error::from(io::ErrorKind::ConnectionRefused)));
        let error = login_error(&config, &refused);
        assert!(error.kind() == ErrorKind::Retry && error.to_string().contains("h:3306"), "{error}");
    }
}
