//! CREATE TABLE, as far as it says what the columns of a table without rows are (MySQL manual, "CREATE TABLE Statement"; MariaDB
//! manual, "CREATE TABLE").
//!
//! In a log of rows, a table that was made of a SELECT is logged as if its columns had been written.

use calve_core::TableName;

use super::change::{Alteration, TableChange, begins_index};
use super::cursor::{Cursor, split_at_commas};
use super::definition::Definition;
use super::token::{Token, tokens};
use super::{Statement, alter::REAL_AS_FLOAT};
use crate::charset;
use crate::server::Flavour;

/// What a statement makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewTable {
    /// The same columns as this table.
    Like(TableName),
    /// These columns and this key, of a table that has none yet.
    Defined(Alteration),
}

impl NewTable {
    /// Reads a CREATE TABLE. None where it is not understood, or makes a table that cannot be replicated.
    pub(crate) fn read(statement: &Statement<'_>) -> Option<Self> {
        let tokens = tokens(statement.flavour, statement.sql, statement.sql_mode);
        let mut cursor = Cursor(&tokens);
        cursor.skip("CREATE").then_some(())?;
        cursor.skip_all(&["OR", "REPLACE"]);
        cursor.skip("TABLE").then_some(())?;
        cursor.skip_all(&["IF", "NOT", "EXISTS"]);
        table(&mut cursor, statement.default_db)?;
        if cursor.skip("LIKE") {
            return table(&mut cursor, statement.default_db).map(Self::Like);
        }
        let inside = cursor.parenthesised()?;
        let mut like = Cursor(inside);
        if like.skip("LIKE") {
            return table(&mut like, statement.default_db).map(Self::Like);
        }
        let mut changes = Vec::new();
        for part in split_at_commas(inside) {
            changes.extend(columns_and_keys(part, statement)?);
        }
        changes.extend(options(cursor)?);
        Some(Self::Defined(Alteration { changes, ..Alteration::default() }))
    }
}

fn table(cursor: &mut Cursor<'_>, default_db: &str) -> Option<TableName> {
    let first = cursor.name()?;
    if cursor.skip_sign('.') {
        Some(TableName::new(first, cursor.name()?))
    } else {
        Some(TableName::new(default_db, first))
    }
}

/// One part of the definition: a column or the primary key; nothing where it is an index or a constraint.
fn columns_and_keys(part: &[Token], statement: &Statement<'_>) -> Option<Vec<TableChange>> {
    let mut cursor = Cursor(part);
    let begins = |cursor: &Cursor<'_>, words: &[&str]| {
        cursor.0.first().is_some_and(|token| words.iter().any(|word| token.is(word)))
    };
    if cursor.skip("CONSTRAINT") && !begins(&cursor, &["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"]) {
        cursor.name()?;
    }
    if begins_index(cursor.0) {
        return Some(Vec::new());
    }
    if cursor.skip("PRIMARY") {
        return TableChange::add_key(cursor).map(|key| vec![key]);
    }
    if begins(&cursor, &["PERIOD", "LIKE"]) {
        return None;
    }
    let real_as_float = statement.sql_mode & REAL_AS_FLOAT != 0;
    let (definition, None) = Definition::read(cursor, real_as_float)? else { return None };
    // Which of these the log carries is another matter.
    if definition.generated && statement.flavour == Flavour::MariaDb {
        return None;
    }
    Some(vec![TableChange::Add { definition, place: None, if_not_exists: false }])
}

/// The character set among the options. None where one of them is not for tables that are replicated.
fn options(mut cursor: Cursor<'_>) -> Option<Vec<TableChange>> {
    let mut found = Vec::new();
    while let Some(token) = cursor.next() {
        let value = |cursor: &mut Cursor<'_>| {
            cursor.skip_sign('=');
            cursor.next().and_then(Token::name).map(str::to_lowercase)
        };
        let Token::Word(word) = token else { continue };
        match word.to_ascii_uppercase().as_str() {
            "CHARSET" => found.push(charset::catalog_name(&value(&mut cursor)?)?),
            "CHARACTER" | "CHAR" if cursor.skip("SET") => found.push(charset::catalog_name(&value(&mut cursor)?)?),
            "COLLATE" => found.push(charset::of_collation(&value(&mut cursor)?)?),
            "ENGINE" => {
                let engine = value(&mut cursor)?;
                ["innodb", "rocksdb"].contains(&engine.as_str()).then_some(())?;
            }
            // What stands in their quotes is a text; what follows is of partitions alone.
            "PARTITION" => break,
            "SELECT" | "AS" | "IGNORE" | "VALUES" | "VERSIONING" | "WITH" => return None,
            _ => {}
        }
    }
    Some(found.into_iter().map(TableChange::DefaultCharacterSet).collect())
}

/// Every table that the statement may name.
pub(crate) fn tables_named(statement: &Statement<'_>) -> Vec<TableName> {
    let tokens = tokens(statement.flavour, statement.sql, statement.sql_mode);
    let mut named = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Some(name) = token.name() else { continue };
        let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
        let qualified = before(1).is_some_and(|token| token.is_sign('.'));
        let schema = if qualified { before(2).and_then(Token::name) } else { Some(statement.default_db) };
        named.extend(schema.map(|schema| TableName::new(schema, name)));
    }
    named
}
