//! What the server must be, and how it must be set.

use std::collections::HashMap;

use calve_core::Result;
use tokio_postgres::Client;

use super::rights::Role;
use crate::error::sql_error;
use crate::slot::SlotStatus;
use crate::source::PostgresSettings;
use crate::sql::{identifier, literal};
use calve_core::Finding;

/// Publications of whole schemas, row filters and column lists came with 15; what calve asks of the catalog needs them.
const FIRST_VERSION: i32 = 150_000;
/// The connection that streams, and the one whose slot exports the snapshot of a load.
const SENDERS: i64 = 2;
/// Connections beside those that load: for questions, for the guard of the publication, and to hold the load's locks.
const OTHER_CONNECTIONS: i64 = 3;
const SMALL_WAL_KEEP_MB: i64 = 1024;
const SHORT_SENDER_TIMEOUT_MS: i64 = 10_000;

/// What the session was asked for (`SESSION_OPTIONS`), as `current_setting` shows it.
const SESSION: [(&str, &str); 6] = [
    ("DateStyle", "ISO"),
    ("IntervalStyle", "iso_8601"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "3"),
    ("lc_monetary", "C"),
];

const SETTINGS: &str = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('wal_level', \
     'max_replication_slots', 'max_wal_senders', 'max_connections', 'superuser_reserved_connections', \
     'max_slot_wal_keep_size', 'wal_sender_timeout', 'idle_replication_slot_timeout', 'synchronous_standby_names', \
     'server_encoding', 'DateStyle', 'IntervalStyle', 'TimeZone', 'bytea_output', 'extra_float_digits', 'lc_monetary')";
const USE: &str = "SELECT pg_catalog.pg_is_in_recovery(), \
     (SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots), \
     (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication), \
     (SELECT COALESCE(pg_catalog.sum(numbackends), 0)::int8 FROM pg_catalog.pg_stat_database), \
     (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity \
       WHERE backend_type = 'client backend' AND usename = current_user)";

struct Server<'a> {
    settings: HashMap<String, String>,
    pipeline: &'a PostgresSettings,
    in_recovery: bool,
    slots: i64,
    senders: i64,
    connections: i64,
    own_connections: i64,
    /// Whether the pipeline's slot exists, and whether somebody (this pipeline) reads from it now.
    slot_exists: bool,
    slot_active: bool,
}

/// Whether the server's version is one that calve cannot work with.
pub(super) async fn too_old(client: &Client) -> Result<Option<Finding>> {
    let failed = |error: tokio_postgres::Error| sql_error("cannot read the server's version", &error);
    let row = client.query_one("SELECT current_setting('server_version_num')::int4", &[]).await.map_err(failed)?;
    let version: i32 = row.try_get(0).map_err(failed)?;
    Ok((version < FIRST_VERSION).then(|| {
        Finding::error(format!("the server is Postgres {}", version / 10_000), "upgrade it to Postgres 15 or later")
    }))
}

/// The findings about the server as a whole.
pub(super) async fn check(
    client: &Client,
    pipeline: &PostgresSettings,
    role: &Role,
    slot: &Result<Option<SlotStatus>>,
) -> Result<Vec<Finding>> {
    let failed = |error: tokio_postgres::Error| sql_error("cannot read the server's settings", &error);
    let mut settings = HashMap::new();
    for row in client.query(SETTINGS, &[]).await.map_err(failed)? {
        settings.insert(row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
    }
    let row = client.query_one(USE, &[]).await.map_err(failed)?;
    let count = |index| row.try_get::<_, i64>(index).map_err(failed);
    let status = slot.as_ref().ok().and_then(Option::as_ref);
    let server = Server {
        settings,
        pipeline,
        in_recovery: row.try_get(0).map_err(failed)?,
        slots: count(1)?,
        senders: count(2)?,
        connections: count(3)?,
        own_connections: count(4)?,
        // One of the wrong kind takes its place too.
        slot_exists: !matches!(slot, Ok(None)),
        slot_active: status.is_some_and(|status| status.active_pid.is_some()),
    };
    let mut findings = Vec::new();
    server.kind(&mut findings);
    server.session(&mut findings);
    server.room(role, &mut findings);
    server.retention(&mut findings);
    server.timeouts(&mut findings);
    Ok(findings)
}

impl Server<'_> {
    fn text(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// 0 where the server does not know the setting: this means "off" for those asked for here.
    fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    fn kind(&self, findings: &mut Vec<Finding>) {
        if self.in_recovery {
            findings.push(Finding::error(
                "the server is a standby, which takes no publication",
                "give the address of the primary, or target_session_attrs=primary with all addresses",
            ));
        }
        let level = self.text("wal_level");
        if level != "logical" {
            findings.push(Finding::error(
                format!("wal_level is {level}: the WAL does not hold what replication needs"),
                "ALTER SYSTEM SET wal_level = 'logical'; then restart Postgres (on Amazon RDS: set rds.logical_replication \
                 = 1 in the parameter group)",
            ));
        }
        if self.text("server_encoding") == "SQL_ASCII" {
            findings.push(Finding::warning(
                "the database's encoding is SQL_ASCII, so text may hold any bytes: a table stops at a value that is not UTF-8",
                "recreate the database with ENCODING 'UTF8'",
            ));
        }
    }

    /// A pooler that ignores startup options hands out sessions that print values in other forms.
    fn session(&self, findings: &mut Vec<Finding>) {
        let differing: Vec<&str> = SESSION
            .into_iter()
            .filter(|(name, value)| self.text(name).split(',').next() != Some(*value))
            .map(|(name, _)| name)
            .collect();
        if !differing.is_empty() {
            findings.push(Finding::error(
                format!(
                    "the session did not take the settings it asked for ({}): a connection pooler seems to stand in front",
                    differing.join(", ")
                ),
                "give the address of the Postgres server itself",
            ));
        }
    }

    fn room(&self, role: &Role, findings: &mut Vec<Finding>) {
        // Without its slot the pipeline cannot begin; without another one it cannot load, which may come later.
        let need = |wanted: i64, free: i64, begun: bool, what: String, remedy: String| {
            (free < wanted).then(|| if begun { Finding::warning(what, remedy) } else { Finding::error(what, remedy) })
        };
        let slots = self.number("max_replication_slots");
        let wanted = 1 + i64::from(!self.slot_exists);
        findings.extend(need(
            wanted,
            slots - self.slots,
            self.slot_exists,
            format!(
                "{} of {slots} replication slots are taken; {wanted} more needed, of which one only while tables are read",
                self.slots
            ),
            format!("ALTER SYSTEM SET max_replication_slots = {}; then restart Postgres", self.slots + wanted + 2),
        ));
        let senders = self.number("max_wal_senders");
        let wanted = SENDERS - i64::from(self.slot_active);
        findings.extend(need(
            wanted,
            senders - self.senders,
            self.slot_active,
            format!(
                "{} of {senders} WAL senders are taken; {wanted} more needed, of which one only while tables are read",
                self.senders
            ),
            format!("ALTER SYSTEM SET max_wal_senders = {}; then restart Postgres", self.senders + wanted + 2),
        ));
        let wanted = i64::try_from(self.pipeline.load_parallelism).unwrap_or(i64::MAX / 2) + OTHER_CONNECTIONS;
        let connections = self.number("max_connections");
        let free = connections - self.number("superuser_reserved_connections") - self.connections;
        if free < wanted {
            findings.push(Finding::warning(
                format!(
                    "{} of {connections} connections are taken; up to {wanted} more may be needed",
                    self.connections
                ),
                "ALTER SYSTEM SET max_connections = ..; then restart Postgres; or lower load_parallelism",
            ));
        }
        if let Some(limit) = role.connection_limit
            && i64::from(limit) - self.own_connections < wanted
        {
            findings.push(Finding::warning(
                format!("user {} may open {limit} connections, and up to {wanted} are needed", role.name),
                format!("ALTER ROLE {} CONNECTION LIMIT {}", identifier(&role.name), self.own_connections + wanted),
            ));
        }
    }

    fn retention(&self, findings: &mut Vec<Finding>) {
        match self.number("max_slot_wal_keep_size") {
            -1 => findings.push(Finding::warning(
                "max_slot_wal_keep_size is unlimited: while calve is down, the WAL kept for it can fill the server's disk",
                "ALTER SYSTEM SET max_slot_wal_keep_size = '100GB' (what the disk can spare); then SELECT pg_reload_conf()",
            )),
            size if size < SMALL_WAL_KEEP_MB => findings.push(Finding::warning(
                format!(
                    "max_slot_wal_keep_size is {size} MB: when calve falls behind by more, its slot is lost and every table \
                     must be read again"
                ),
                "ALTER SYSTEM SET max_slot_wal_keep_size = '100GB' (what the disk can spare); then SELECT pg_reload_conf()",
            )),
            _ => {}
        }
        let idle = self.number("idle_replication_slot_timeout");
        if idle > 0 {
            findings.push(Finding::warning(
                format!(
                    "idle_replication_slot_timeout is {idle} s: when calve is down for longer, its slot is lost and every \
                     table must be read again"
                ),
                "ALTER SYSTEM SET idle_replication_slot_timeout = 0; then SELECT pg_reload_conf()",
            ));
        }
    }

    fn timeouts(&self, findings: &mut Vec<Finding>) {
        match self.number("wal_sender_timeout") {
            0 => findings.push(Finding::warning(
                "wal_sender_timeout is off: after a broken connection the slot may stay taken for a long time",
                "ALTER SYSTEM SET wal_sender_timeout = '60s'; then SELECT pg_reload_conf()",
            )),
            timeout if timeout < SHORT_SENDER_TIMEOUT_MS => findings.push(Finding::warning(
                format!("wal_sender_timeout is {timeout} ms: a short stall of the network ends the stream"),
                "ALTER SYSTEM SET wal_sender_timeout = '60s'; then SELECT pg_reload_conf()",
            )),
            _ => {}
        }
        let names = self.text("synchronous_standby_names");
        let application = &self.pipeline.connect.application_name;
        if names.contains('*') || names.split([',', '(', ')', ' ']).any(|name| name.trim_matches('"') == application) {
            findings.push(Finding::warning(
                format!(
                    "synchronous_standby_names = {} takes in calve: commits on the server would wait until calve has stored \
                     them",
                    literal(names).trim()
                ),
                "name the standbys in synchronous_standby_names one by one",
            ));
        }
    }
}
