//! What each table must be, and what foreign keys do behind the log's back.

use calve_core::{Finding, Result, TableName};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::ddl::token::{Token, tokens};
use crate::describe::catalog::CatalogTable;
use crate::describe::missing;
use crate::error::{server_error, sql_error};
use crate::merge;
use crate::server::{Flavour, Server};
use crate::sql::{identifier, qualified};

/// The findings about the tables; `found` in the order of `tables`.
pub(super) async fn check(
    conn: &mut Conn,
    server: &Server,
    tables: &[TableName],
    found: &[Option<CatalogTable>],
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (table, found) in tables.iter().zip(found) {
        match found {
            None => findings.push(missing(table)),
            Some(found) if server.conversions.merges.containing(table).is_some() => {
                findings.extend(found.findings(&merge::of_members(server)));
            }
            Some(found) => {
                findings.extend(found.findings(server));
                findings.extend(found.layout_findings(server));
            }
        }
    }
    if !server.logs_cascades {
        for table in found.iter().flatten() {
            findings.extend(cascades(conn, server, &table.table).await?);
        }
    }
    Ok(findings)
}

/// The engine follows foreign keys by itself, beneath the log. They are read from the table's definition, for
/// `information_schema` of MariaDB shows them to none who may only read the table.
async fn cascades(conn: &mut Conn, server: &Server, table: &TableName) -> Result<Vec<Finding>> {
    let failed = |error: mysql_async::Error| sql_error(format_args!("cannot read the definition of {table}"), &error);
    let sql = format!("SHOW CREATE TABLE {}", qualified(table));
    let definition = match conn.query_first::<(String, String), _>(sql).await {
        Ok(row) => row.map(|(_, definition)| definition).unwrap_or_default(),
        // The rights tell.
        Err(error) if server_error(&error).is_some() => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let finding = |key: ForeignKey| {
        Finding::warning(
            format!(
                "foreign key {} of table {table} is {}: rows of {table} that go or change with those of {} are not in the log, \
                 and stay as they were in the lake",
                identifier(&key.name),
                key.rules.join(" "),
                key.parent
            ),
            format!(
                "ALTER TABLE {0} DROP FOREIGN KEY {1}, and add it with ON DELETE RESTRICT ON UPDATE RESTRICT, deleting rows of \
                 {table} by statements of their own; or use MySQL 9.6 or later, which logs them",
                qualified(table),
                identifier(&key.name)
            ),
        )
    };
    Ok(foreign_keys(server.flavour, &definition).into_iter().filter(|key| !key.rules.is_empty()).map(finding).collect())
}

/// A foreign key as a definition has it.
#[derive(Debug, PartialEq, Eq)]
struct ForeignKey {
    name: String,
    parent: String,
    /// Those that change rows of this table: `ON DELETE CASCADE`, `ON UPDATE SET NULL`.
    rules: Vec<String>,
}

/// `` CONSTRAINT `name` FOREIGN KEY (..) REFERENCES `parent` (..) ON DELETE .. ON UPDATE .. `` as SHOW CREATE TABLE prints it.
fn foreign_keys(flavour: Flavour, definition: &str) -> Vec<ForeignKey> {
    let tokens = tokens(flavour, definition, 0);
    let mut keys: Vec<ForeignKey> = Vec::new();
    for window in tokens.windows(4) {
        let [first, second, third, fourth] = window else { continue };
        if first.is("CONSTRAINT") && third.is("FOREIGN") && fourth.is("KEY") {
            let name = second.name().unwrap_or_default().to_owned();
            keys.push(ForeignKey { name, parent: String::new(), rules: Vec::new() });
        }
        let Some(key) = keys.last_mut() else { continue };
        if first.is("REFERENCES") {
            let parts = [Some(second), Some(fourth).filter(|_| third.is_sign('.'))];
            let parts: Vec<&str> = parts.into_iter().flatten().filter_map(Token::name).collect();
            key.parent = parts.join(".");
        }
        if first.is("ON") && (second.is("DELETE") || second.is("UPDATE")) {
            let event = second.name().unwrap_or_default();
            let action = third.name().unwrap_or_default();
            match action {
                "CASCADE" => key.rules.push(format!("ON {event} CASCADE")),
                "SET" => key.rules.push(format!("ON {event} SET {}", fourth.name().unwrap_or_default())),
                _ => {}
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_keys_are_found_in_a_definition() {
        let definition = "CREATE TABLE `c` (\n  `id` int NOT NULL COMMENT 'ON DELETE CASCADE',\n  KEY `a` (`a`),\n  \
             CONSTRAINT `a` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE SET NULL ON UPDATE CASCADE,\n  \
             CONSTRAINT `b` FOREIGN KEY (`b`, `c`) REFERENCES `d`.`p` (`x`, `y`),\n  \
             CONSTRAINT `c` FOREIGN KEY (`b`) REFERENCES `p` (`id`) ON DELETE RESTRICT\n) ENGINE=InnoDB";
        let key = |name: &str, parent: &str, rules: &[&str]| ForeignKey {
            name: name.to_owned(),
            parent: parent.to_owned(),
            rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        };
        let expected =
            [key("a", "p", &["ON DELETE SET NULL", "ON UPDATE CASCADE"]), key("b", "d.p", &[]), key("c", "p", &[])];
        for flavour in [Flavour::MySql, Flavour::MariaDb] {
            assert_eq!(foreign_keys(flavour, definition), expected);
        }
    }
}
