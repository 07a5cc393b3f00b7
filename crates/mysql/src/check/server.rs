//! What the server must be, and how it must be set.

use calve_core::{Finding, Result, TableName};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use crate::error::{server_error, sql_error};
use crate::server::{Flavour, Server};
use crate::settings::MySqlSettings;

/// The first with roles, transactional statements about tables, and row metadata in the log.
const FIRST_MYSQL: (u16, u16, u16) = (8, 0, 14);
/// The first with BINLOG MONITOR and row metadata in the log.
const FIRST_MARIADB: (u16, u16, u16) = (10, 5, 2);
/// The log must outlive a weekend's outage of whoever mends it, at the least a day.
const SHORT_RETENTION_SECONDS: f64 = 86_400.0;

/// Whether the server's version is one that calve cannot work with.
pub(super) fn too_old(server: &Server) -> Option<Finding> {
    let (name, first) = match server.flavour {
        Flavour::MySql => ("MySQL", FIRST_MYSQL),
        Flavour::MariaDb => ("MariaDB", FIRST_MARIADB),
    };
    (server.version < first).then(|| {
        Finding::error(
            format!("the server is {name} {}", server.version_text),
            format!("upgrade it to {name} {}.{}.{} or later", first.0, first.1, first.2),
        )
    })
}

/// The findings about the server as a whole.
pub(super) async fn check(
    conn: &mut Conn,
    second: &mut Conn,
    server: &Server,
    settings: &MySqlSettings,
    tables: &[TableName],
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    log(server, &mut findings);
    retention(server, &mut findings);
    gtids(server, &mut findings);
    replica(conn, server, &mut findings).await?;
    numbers(conn, server, settings, &mut findings).await?;
    filters(conn, server, tables, &mut findings).await?;
    proxy(conn, second, &mut findings).await?;
    Ok(findings)
}

/// A setting as it is changed for good.
fn set(server: &Server, name: &str, value: &str) -> String {
    match server.flavour {
        Flavour::MySql => format!("SET PERSIST {name} = {value}"),
        Flavour::MariaDb => format!("SET GLOBAL {name} = {value}, and {name}={value} in the server's configuration"),
    }
}

fn log(server: &Server, findings: &mut Vec<Finding>) {
    if !server.log_bin {
        findings.push(Finding::error(
            "log_bin is OFF: the server keeps no log of changes",
            "write log_bin=binlog into the server's configuration and restart it",
        ));
    }
    let format = &server.binlog_format;
    if !format.eq_ignore_ascii_case("ROW") {
        findings.push(Finding::error(
            format!("binlog_format is {format}: the log holds statements where rows are needed"),
            format!(
                "{}; sessions that are open keep their own until they reconnect",
                set(server, "binlog_format", "ROW")
            ),
        ));
    }
    let image = &server.binlog_row_image;
    if !image.eq_ignore_ascii_case("FULL") {
        findings.push(Finding::error(
            format!("binlog_row_image is {image}: the log leaves columns out"),
            format!(
                "{}; sessions that are open keep their own until they reconnect",
                set(server, "binlog_row_image", "FULL")
            ),
        ));
    }
    let metadata = &server.binlog_row_metadata;
    if !metadata.eq_ignore_ascii_case("FULL") {
        findings.push(Finding::warning(
            format!("binlog_row_metadata is {metadata}: the log does not say the names of columns, so a change of a table is noticed by its shape only"),
            set(server, "binlog_row_metadata", "FULL"),
        ));
    }
    if server.server_id == 0 {
        findings
            .push(Finding::error("server_id is 0: the server sends its log to nobody", set(server, "server_id", "1")));
    }
}

fn retention(server: &Server, findings: &mut Vec<Finding>) {
    let seconds = match server.binlog_expire_logs_seconds {
        // Some clock of seconds; `u64` beyond 2^53 is beyond all of them.
        0 => server.expire_logs_days * 86_400.0,
        #[expect(clippy::cast_precision_loss, reason = "compared with a day")]
        seconds => seconds as f64,
    };
    // 0 keeps it for ever.
    if seconds > 0.0 && seconds < SHORT_RETENTION_SECONDS {
        findings.push(Finding::warning(
            format!(
                "the server keeps its log for {:.1} hours only: a pipeline that is down for longer must load its tables again",
                seconds / 3600.0
            ),
            set(server, "binlog_expire_logs_seconds", "604800"),
        ));
    }
}

fn gtids(server: &Server, findings: &mut Vec<Finding>) {
    if server.has_gtids() {
        return;
    }
    findings.push(Finding::warning(
        format!("gtid_mode is {}: after a failover to another server the pipeline must start anew", server.gtid_mode),
        "SET PERSIST enforce_gtid_consistency = ON; then, one after the other, SET PERSIST gtid_mode = OFF_PERMISSIVE, \
         ON_PERMISSIVE and ON, before the pipeline is started",
    ));
}

/// What a replica gets from its source is in its own log only if it is told to.
async fn replica(conn: &mut Conn, server: &Server, findings: &mut Vec<Finding>) -> Result<()> {
    if server.log_replica_updates || !server.log_bin {
        return Ok(());
    }
    let sql = match server.flavour {
        Flavour::MySql if server.version >= (8, 0, 22) => "SHOW REPLICA STATUS",
        Flavour::MySql => "SHOW SLAVE STATUS",
        Flavour::MariaDb => "SHOW ALL SLAVES STATUS",
    };
    if optional(conn, sql, "cannot see whether the server is a replica").await?.is_empty() {
        return Ok(());
    }
    let name = if server.flavour == Flavour::MySql { "log_replica_updates" } else { "log_slave_updates" };
    findings.push(Finding::error(
        format!("the server is a replica with {name} OFF: changes that come from its source are not in its log"),
        format!("write {name}=ON into the server's configuration and restart it, or give the address of its source"),
    ));
    Ok(())
}

/// The numbers that replicas go by.
async fn numbers(
    conn: &mut Conn,
    server: &Server,
    settings: &MySqlSettings,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let ours = settings.server_id;
    if ours == server.server_id || ours == 0 {
        findings.push(Finding::error(
            format!("the pipeline's server_id {ours} is the server's own, or 0: the server would send it nothing"),
            "give the pipeline another server_id",
        ));
    }
    let sql = match server.flavour {
        Flavour::MySql if server.version >= (8, 0, 22) => "SHOW REPLICAS",
        _ => "SHOW SLAVE HOSTS",
    };
    let replicas = optional(conn, sql, "cannot list the server's replicas").await?;
    let number = |row: &Row| row.get_opt::<u32, _>(0).and_then(std::result::Result::ok);
    if replicas.iter().any(|row| number(row) == Some(ours)) {
        findings.push(Finding::warning(
            format!("a replica with the pipeline's server_id {ours} is connected: two of the same number end each other's connections"),
            "this is well if it is this pipeline that is running; otherwise give the pipeline another server_id",
        ));
    }
    Ok(())
}

/// `binlog_do_db` and `binlog_ignore_db` keep databases out of the log.
async fn filters(conn: &mut Conn, server: &Server, tables: &[TableName], findings: &mut Vec<Finding>) -> Result<()> {
    let rows = optional(conn, server.log_status_statement(), "cannot see what is left out of the log").await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let list = |name: &str| -> Vec<String> {
        let text =
            row.get_opt::<Option<String>, _>(name).and_then(std::result::Result::ok).flatten().unwrap_or_default();
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let (only, ignored) = (list("Binlog_Do_DB"), list("Binlog_Ignore_DB"));
    for table in tables {
        let left_out = (!only.is_empty() && !only.contains(&table.schema)) || ignored.contains(&table.schema);
        if left_out {
            findings.push(Finding::error(
                format!("the server leaves database {} out of its log, and with it table {table}", table.schema),
                "take binlog_do_db and binlog_ignore_db out of the server's configuration and restart it",
            ));
        }
    }
    Ok(())
}

/// The log is one server's; a proxy gives now this one and now that.
async fn proxy(conn: &mut Conn, second: &mut Conn, findings: &mut Vec<Finding>) -> Result<()> {
    const WHO: &str = "SELECT CONNECTION_ID(), CONCAT_WS(':', @@hostname, @@port, @@server_id, @@datadir)";
    let failed = |error: mysql_async::Error| sql_error("cannot ask the server who it is", &error);
    let mut servers = Vec::new();
    for conn in [conn, second] {
        let id = conn.id();
        let Some((thread, server)) = conn.query_first::<(u64, String), _>(WHO).await.map_err(failed)? else { continue };
        // The greeting has the lower 32 bits.
        if thread & u64::from(u32::MAX) != u64::from(id) {
            servers.push(format!("connection {id} is {thread} there"));
        }
        servers.push(server);
    }
    servers.dedup();
    if servers.len() > 1 {
        findings.push(Finding::error(
            format!("a proxy or load balancer stands in front of the server ({})", servers.join(", ")),
            "give the address of the server itself: a log can only be read from the one that wrote it",
        ));
    }
    Ok(())
}

/// The rows of a statement; none where the user may not run it, which is for the rights to tell.
async fn optional(conn: &mut Conn, sql: &str, what: &str) -> Result<Vec<Row>> {
    match conn.query(sql).await {
        Ok(rows) => Ok(rows),
        Err(error) if server_error(&error).is_some() => Ok(Vec::new()),
        Err(error) => Err(sql_error(what, &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use calve_core::Severity;

    use super::*;

    fn server(settings: &[(&str, &str)]) -> Server {
        let good = [
            ("version", "9.7.0"),
            ("log_bin", "ON"),
            ("binlog_format", "ROW"),
            ("binlog_row_image", "FULL"),
            ("binlog_row_metadata", "FULL"),
            ("server_id", "1"),
            ("gtid_mode", "ON"),
            ("binlog_expire_logs_seconds", "2592000"),
        ];
        let all = good.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Server::of(&all.collect::<HashMap<_, _>>())
    }

    #[test]
    fn each_setting_has_its_finding() {
        const MARIADB: (&str, &str) = ("version", "11.8.3-MariaDB");
        for (settings, severity, what, remedy) in [
            (&[("log_bin", "OFF")][..], Severity::Error, "log_bin is OFF", "log_bin=binlog"),
            (
                &[("binlog_format", "MIXED")],
                Severity::Error,
                "binlog_format is MIXED",
                "SET PERSIST binlog_format = ROW",
            ),
            (
                &[("binlog_format", "STATEMENT"), MARIADB],
                Severity::Error,
                "binlog_format",
                "SET GLOBAL binlog_format = ROW",
            ),
            (&[("binlog_row_image", "MINIMAL")], Severity::Error, "binlog_row_image is MINIMAL", "SET PERSIST"),
            (&[("binlog_row_metadata", "NO_LOG"), MARIADB], Severity::Warning, "binlog_row_metadata is NO_LOG", "FULL"),
            (&[("server_id", "0")], Severity::Error, "server_id is 0", "SET PERSIST server_id"),
            (&[("gtid_mode", "OFF")], Severity::Warning, "gtid_mode is OFF", "ON_PERMISSIVE"),
            (&[("binlog_expire_logs_seconds", "3600")], Severity::Warning, "for 1.0 hours", "604800"),
            (
                &[("binlog_expire_logs_seconds", "0"), ("expire_logs_days", "0.5"), MARIADB],
                Severity::Warning,
                "for 12.0 hours",
                "604800",
            ),
        ] {
            let server = server(settings);
            let mut findings = Vec::new();
            log(&server, &mut findings);
            retention(&server, &mut findings);
            gtids(&server, &mut findings);
            let [finding] = &findings[..] else { panic!("{settings:?}: {findings:?}") };
            assert_eq!(finding.severity, severity, "{finding}");
            assert!(finding.what.contains(what) && finding.remedy.contains(remedy), "{finding}");
        }
        assert!(too_old(&server(&[("version", "5.7.44-log")])).is_some());
        assert!(too_old(&server(&[("version", "10.4.34-MariaDB")])).is_some());
        assert!(too_old(&server(&[])).is_none());
    }
}
