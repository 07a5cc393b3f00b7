//! What the user may do, and the statements that grant the rest.

use std::collections::BTreeSet;

use calve_core::{Finding, Result, TableName};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::describe::account;
use crate::error::sql_error;
use crate::server::{Flavour, Server};
use crate::sql::{identifier, qualified};

/// Everything that must be granted, as one block to paste. `locked` are those of the tables that are locked when they are read.
pub(super) async fn check(
    conn: &mut Conn,
    server: &Server,
    tables: &[TableName],
    locked: &[TableName],
) -> Result<Vec<Finding>> {
    let failed = |error: mysql_async::Error| sql_error("cannot read what the user may do", &error);
    let user: Option<String> = conn.query_first("SELECT CURRENT_USER()").await.map_err(failed)?;
    let user = account(&user.unwrap_or_default());
    // MySQL shows what comes by roles for roles that are named; MariaDB shows those that are active anyway.
    let mut sql = "SHOW GRANTS".to_owned();
    if server.flavour == Flavour::MySql {
        let roles: Option<String> = conn.query_first("SELECT CURRENT_ROLE()").await.map_err(failed)?;
        if let Some(roles) = roles.filter(|roles| roles != "NONE") {
            sql = format!("SHOW GRANTS FOR CURRENT_USER() USING {roles}");
        }
    }
    let lines: Vec<String> = conn.query(sql).await.map_err(failed)?;
    Ok(findings(server.flavour, &user, &Grants::parse(&lines), tables, locked))
}

fn findings(flavour: Flavour, user: &str, grants: &Grants, tables: &[TableName], locked: &[TableName]) -> Vec<Finding> {
    // MariaDB took REPLICATION CLIENT apart in 10.5 and shows it under its new name.
    let (monitor, names): (&str, &[&str]) = match flavour {
        Flavour::MySql => ("REPLICATION CLIENT", &["REPLICATION CLIENT", "SUPER"]),
        Flavour::MariaDb => ("BINLOG MONITOR", &["BINLOG MONITOR", "REPLICATION CLIENT", "SUPER"]),
    };
    let (mut lacking, mut statements) = (Vec::new(), Vec::new());
    let mut wanted = Vec::new();
    if !grants.everywhere(&["REPLICATION SLAVE"]) {
        wanted.push("REPLICATION SLAVE");
        lacking.push("read the log".to_owned());
    }
    if !grants.everywhere(names) {
        wanted.push(monitor);
        lacking.push("see where the log stands".to_owned());
    }
    if !wanted.is_empty() {
        statements.push(format!("GRANT {} ON *.* TO {user};", wanted.join(", ")));
    }
    let unreadable: Vec<&TableName> = tables.iter().filter(|table| !grants.may("SELECT", table)).collect();
    if !unreadable.is_empty() {
        const SHOWN: usize = 10;
        let more = unreadable.len().saturating_sub(SHOWN);
        let names: Vec<String> = unreadable.iter().take(SHOWN).map(ToString::to_string).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        lacking.push(format!("read {}{more}", names.join(", ")));
        statements.extend(unreadable.iter().map(|table| format!("GRANT SELECT ON {} TO {user};", qualified(table))));
    }
    let unlockable: BTreeSet<&str> =
        locked.iter().filter(|table| !grants.may("LOCK TABLES", table)).map(|table| table.schema.as_str()).collect();
    for database in unlockable {
        lacking.push(format!("lock tables of {database}, which those without a key need when they are read"));
        statements.push(format!("GRANT LOCK TABLES ON {}.* TO {user};", identifier(database)));
    }
    let mut findings = Vec::new();
    if !lacking.is_empty() {
        let what = format!("user {user} may not {}", lacking.join(", nor "));
        findings.push(Finding::error(what, statements.join("\n")));
    }
    if flavour == Flavour::MariaDb && !grants.everywhere(&["BINLOG ADMIN", "SUPER"]) {
        findings.push(Finding::warning(
            "while a table is loaded, an ALTER TABLE of it waits for the end of the load, and writers behind it: MariaDB \
             releases the locks earlier only for a user who may keep its session out of the log",
            format!("GRANT BINLOG ADMIN ON *.* TO {user};"),
        ));
    }
    findings
}

/// Where a privilege holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    Everywhere,
    /// A database, as a pattern of `_`, `%` and `\`.
    Database(String),
    Table(String, String),
}

/// What SHOW GRANTS lists.
#[derive(Debug, Default)]
struct Grants {
    granted: Vec<(String, Scope)>,
    /// Databases that SELECT was taken back of (MySQL's `partial_revokes`).
    revoked: BTreeSet<String>,
}

impl Grants {
    /// `` GRANT SELECT, REPLICATION SLAVE ON *.* TO `u`@`h` `` a line. A line of another form grants nothing that is asked for here.
    fn parse(lines: &[String]) -> Self {
        let mut grants = Self::default();
        for line in lines {
            if let Some((privileges, scope)) = line.strip_prefix("GRANT ").and_then(privileges_and_scope) {
                grants.granted.extend(privileges.into_iter().map(|privilege| (privilege, scope.clone())));
            } else if let Some((privileges, Scope::Database(database))) =
                line.strip_prefix("REVOKE ").and_then(privileges_and_scope)
                && privileges.iter().any(|privilege| privilege == "SELECT")
            {
                grants.revoked.insert(database);
            }
        }
        grants
    }

    fn everywhere(&self, names: &[&str]) -> bool {
        self.granted.iter().any(|(privilege, scope)| {
            *scope == Scope::Everywhere && (privilege == "ALL PRIVILEGES" || names.contains(&privilege.as_str()))
        })
    }

    fn may(&self, wanted: &str, table: &TableName) -> bool {
        self.granted.iter().filter(|(privilege, _)| privilege == wanted || privilege == "ALL PRIVILEGES").any(
            |(_, scope)| match scope {
                Scope::Everywhere => !self.revoked.contains(&table.schema),
                Scope::Database(pattern) => is_like(&table.schema, pattern),
                Scope::Table(database, name) => *database == table.schema && *name == table.name,
            },
        )
    }
}

fn privileges_and_scope(text: &str) -> Option<(Vec<String>, Scope)> {
    let (privileges, rest) = text.split_once(" ON ")?;
    let (database, rest) = part(rest)?;
    let (table, _) = part(rest.strip_prefix('.')?)?;
    let scope = match (database.as_str(), table.as_str()) {
        ("*", "*") => Scope::Everywhere,
        (_, "*") => Scope::Database(database),
        _ => Scope::Table(database, table),
    };
    // Those of single columns, `SELECT (a, b)`, are none of the table.
    let mut depth = 0_usize;
    let privileges = privileges.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c == ','
    });
    Some((privileges.map(|privilege| privilege.trim().to_ascii_uppercase()).collect(), scope))
}

/// A name in backticks, or `*`; and what follows it.
fn part(text: &str) -> Option<(String, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some(("*".to_owned(), rest));
    }
    let mut name = String::new();
    let mut rest = text.strip_prefix('`')?;
    loop {
        let (before, after) = rest.split_once('`')?;
        name.push_str(before);
        match after.strip_prefix('`') {
            Some(more) => {
                name.push('`');
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

/// LIKE, as grants on databases are matched.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut pattern_rest = pattern.chars();
    match pattern_rest.next() {
        None => text.is_empty(),
        Some('%') => {
            let rest = pattern_rest.as_str();
            text.char_indices().any(|(at, _)| text.get(at..).is_some_and(|text| is_like(text, rest)))
                || is_like("", rest)
        }
        Some(first) => {
            let mut text_rest = text.chars();
            let Some(next) = text_rest.next() else { return false };
            let literal = match first {
                '\\' => pattern_rest.next().unwrap_or('\\'),
                '_' => next,
                other => other,
            };
            literal == next && is_like(text_rest.as_str(), pattern_rest.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flavour: Flavour, lines: &[&str], expected: &[&str]) {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let tables = [TableName::new("d_1", "t"), TableName::new("e", "u")];
        let found = findings(flavour, "'u'@'%'", &Grants::parse(&lines), &tables, &[]);
        let remedies: Vec<&str> = found.iter().map(|finding| finding.remedy.as_str()).collect();
        assert_eq!(remedies, expected, "{lines:?}");
    }

    #[test]
    fn what_is_missing_is_granted_in_one_block() {
        const ALL: &str = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'u'@'%';\nGRANT SELECT ON `d_1`.`t` TO 'u'@'%';\nGRANT SELECT ON `e`.`u` TO 'u'@'%';";
        const SECOND: &str = "GRANT SELECT ON `e`.`u` TO 'u'@'%';";
        const ADMIN: &str = "GRANT BINLOG ADMIN ON *.* TO 'u'@'%';";
        let replica = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`";
        let mysql = |lines: &[&str], expected: &[&str]| check(Flavour::MySql, lines, expected);
        mysql(&["GRANT USAGE ON *.* TO `u`@`%`"], &[ALL]);
        mysql(&["GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`"], &[]);
        mysql(&["GRANT ALL PRIVILEGES ON *.* TO `u`@`%` WITH GRANT OPTION"], &[]);
        mysql(&[replica, "GRANT SELECT ON `d\\_1`.* TO `u`@`%`"], &[SECOND]);
        mysql(&[replica, "GRANT SELECT ON `d%`.* TO `u`@`%`", "GRANT SELECT ON `e`.`u` TO `u`@`%`"], &[]);
        mysql(
            &[replica, "GRANT SELECT ON `d_1`.`t` TO `u`@`%`", "GRANT SELECT (`a`, `b`) ON `e`.`u` TO `u`@`%`"],
            &[SECOND],
        );
        mysql(&[replica, "GRANT `r`@`%` TO `u`@`%`", "GRANT SELECT ON *.* TO `u`@`%`"], &[]);
        let revoked = "REVOKE SELECT ON `e`.* FROM `u`@`%`";
        mysql(&[replica, "GRANT SELECT ON *.* TO `u`@`%`", revoked], &[SECOND]);
        let mariadb = |lines: &[&str], expected: &[&str]| check(Flavour::MariaDb, lines, expected);
        mariadb(
            &["GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*X'"],
            &[ADMIN],
        );
        mariadb(&["GRANT SELECT, SUPER, REPLICATION SLAVE ON *.* TO `u`@`%`"], &[]);
    }

    #[test]
    fn patterns_are_matched_as_the_server_does() {
        for (text, pattern, expected) in [
            ("db", "db", true),
            ("db", "d_", true),
            ("d_", r"d\_", true),
            ("db", r"d\_", false),
            ("database", "d%e", true),
            ("d", "d%", true),
            ("d", "%", true),
            ("", "%", true),
            ("db", "d", false),
        ] {
            assert_eq!(is_like(text, pattern), expected, "{text} {pattern}");
        }
    }
}
