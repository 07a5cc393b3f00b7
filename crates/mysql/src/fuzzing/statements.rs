//! Statements: what they are to transactions, and what they do to tables.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::OnceLock;

use calve_core::{RowBuffer, TableName, TableSchema};

use super::input::Choices;
use super::schemas::captured;
use crate::binlog::Flavour;
use crate::binlog::query::Query;
use crate::conversions::Conversions;
use crate::ddl::{StatementKind, Xid, statement_kind};
use crate::effects::{Altered, Effect, Statements};

/// Flavour, comparison of names, character set, mode, what else is done with the text.
const CHOICES: usize = 8;

/// Tables whose statements are looked for.
fn followed() -> Vec<TableName> {
    [("cap", "t"), ("cap", "u"), ("cap", "a b"), ("Ü", "T`able"), ("shop", "orders"), ("", "t")]
        .map(|(database, table)| TableName::new(database, table))
        .into()
}

/// Reads a statement.
pub fn statements(data: &[u8]) {
    let (mut choices, sql) = Choices::split(data, CHOICES);
    let flavour = choices.flavour();
    let lower_case_table_names = choices.byte() % 3;
    let charset_client = Some(choices.short()).filter(|id| *id != 0);
    // Bits 2 and 20 are those that change how a statement is read.
    let mode = choices.byte();
    let sql_mode = Some(u64::from(mode & 4) | u64::from(mode & 8) << 17);
    let database = ["cap", "", "Ü"][usize::from(choices.byte()) % 3];

    let followed = followed();
    let statements = Statements::new(flavour, lower_case_table_names, followed.clone());
    let query =
        |sql| Query { database, sql: Cow::Borrowed(sql), error: 0, flags: None, sql_mode, charset_client, xid: None };
    let effects = statements.effects(&query(sql), &[]);
    for (table, effect) in &effects {
        assert!(table.0 < followed.len(), "{effect:?} of a table that nobody follows");
        if let Effect::Alter(altered) = effect {
            applied(flavour, altered);
        }
    }
    // What a proxy or a driver puts before it changes nothing.
    if charset_client.is_none() {
        let commented = [b" /* app */\n", sql].concat();
        let again = statements.effects(&query(&commented), &[]);
        let same =
            effects.len() == again.len() && effects.iter().zip(&again).all(|(a, b)| a.0 == b.0 && a.1.is_like(&b.1));
        assert!(same, "{effects:?} became {again:?}");
    }
    drop(statement_kind(sql));
    distributed(sql);
}

/// Whatever is altered, a table has columns under numbers and names of their own, and a key among them; and doing it is the same
/// every time.
fn applied(flavour: Flavour, altered: &Altered) {
    for schema in numbered() {
        let Ok(Some(change)) = altered.apply(flavour, &Conversions::default(), schema) else { continue };
        let columns = &change.schema.columns;
        let ids: BTreeSet<u32> = columns.iter().map(|column| column.id).collect();
        let names: BTreeSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert!(!ids.contains(&0) && ids.len() == columns.len() && names.len() == columns.len(), "{columns:?}");
        assert!(!change.schema.key.is_empty() && change.schema.key.iter().all(|key| *key < columns.len()));
        assert_eq!(altered.apply(flavour, &Conversions::default(), schema), Ok(Some(change.clone())));
        drop(RowBuffer::new(change.schema));
    }
}

/// Tables of the captures, with numbers for their columns.
fn numbered() -> &'static [TableSchema] {
    static SCHEMAS: OnceLock<Vec<TableSchema>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let mut schemas: Vec<TableSchema> =
            captured().iter().take(40).map(|schema| TableSchema::clone(schema)).collect();
        for schema in &mut schemas {
            schema.character_set = Some("utf8mb4".to_owned());
            for (id, column) in (1..).zip(&mut schema.columns) {
                column.id = id;
            }
        }
        schemas
    })
}

/// What identifies a distributed transaction is read as the servers write it.
fn distributed(bytes: &[u8]) {
    let (mut choices, rest) = Choices::split(bytes, 6);
    let format = u32::from(choices.short()) << 16 | u32::from(choices.short());
    let (global, rest) = rest.split_at(usize::from(choices.byte() % 65).min(rest.len()));
    let (branch, _) = rest.split_at(usize::from(choices.byte() % 65).min(rest.len()));
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("text takes text");
            text
        })
    };
    let xid = Xid { format, global: global.to_vec(), branch: branch.to_vec() };
    let named = format!("X'{}',X'{}',{format}", hex(global), hex(branch));
    assert_eq!(statement_kind(format!("XA COMMIT {named}").as_bytes()), StatementKind::XaCommit(xid.clone()));
    assert_eq!(statement_kind(format!("XA START {named}").as_bytes()), StatementKind::XaStart(xid));
}
