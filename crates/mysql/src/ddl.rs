//! What the statements in the log do to the tables that are followed.
//!
//! In a log of rows, a QUERY event holds everything that is not rows: definitions, and what empties or swaps tables without a
//! row event. Only the head of a statement and the kinds of its changes are read here, not its whole grammar, which grows with
//! every version of both servers; a statement of an unknown kind that names a followed table is said to be just that.

mod alter;
mod apply;
mod change;
mod conversion;
mod create;
mod cursor;
mod definition;
mod kind;
pub(crate) mod shadow;
pub(crate) mod token;
mod trigger;
mod written_type;

use calve_core::TableName;

pub(crate) use apply::Session;
pub(crate) use change::Alteration;
pub(crate) use change::TableChange;
pub(crate) use create::{NewTable, tables_named};
use cursor::Cursor;
pub(crate) use kind::{StatementKind, Xid, statement_kind};

use crate::server::Flavour;
use shadow::WrittenTable;
use token::{Token, tokens};
pub(crate) use trigger::Trigger;

/// What a statement does to a followed table. Tables are named as they are followed, new names as the statement has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DdlEffect {
    /// All rows are gone.
    Truncated(TableName),
    /// The table is gone.
    Dropped(TableName),
    /// One of the two names is followed, or both.
    Renamed { from: TableName, to: TableName },
    /// A table of this name was made; an earlier one is gone. Where there was one and the statement says IF NOT EXISTS, nothing
    /// was done, which MySQL logs all the same.
    Created { table: TableName, if_not_exists: bool },
    /// A table was made as a tool makes a copy of `of`, which is to take its place: LIKE it, or as it is written.
    Copied { table: TableName, of: TableName, written: Option<WrittenTable> },
    /// A trigger was made on the table.
    Triggered { table: TableName, trigger: Trigger },
    /// There is no trigger of this name any more, which pt-online-schema-change may have made.
    TriggerDropped(TableName),
    /// Without changes there is only what leaves rows and their decoding alone, such as other indexes.
    Altered { table: TableName, alteration: Alteration },
    /// Rows went without row events: a partition was truncated or dropped, or became a table.
    RowsGone(TableName),
    /// Rows came without row events, or took the place of others: a partition was exchanged, a tablespace imported.
    RowsUnknown(TableName),
    /// Rows were changed by a statement (`binlog_format` STATEMENT or MIXED in that session), which cannot be applied.
    ChangedByStatement(TableName),
    /// The statement names the table, and what it does is not known.
    NotUnderstood(TableName),
}

/// A statement of the log, with what its meaning hangs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement<'a> {
    pub(crate) flavour: Flavour,
    /// The database that names without one belong to; empty for none.
    pub(crate) default_db: &'a str,
    /// In UTF-8: the caller knows the character set of the session (`Q_CHARSET_CODE`) that it is in.
    pub(crate) sql: &'a str,
    /// `Q_SQL_MODE_CODE`.
    pub(crate) sql_mode: u64,
    /// Of the server: other than 0, names are compared without case.
    pub(crate) lower_case_table_names: u8,
}

/// What the statement does to the followed tables, in the order in which it does so.
pub(crate) fn effects_of(statement: &Statement<'_>, followed: &[TableName]) -> Vec<DdlEffect> {
    let tokens = tokens(statement.flavour, statement.sql, statement.sql_mode);
    let mut reading = Reading { statement, followed, tokens: &tokens, effects: Vec::new() };
    if reading.head().is_none() {
        reading.not_understood(&tokens);
    }
    reading.effects
}

/// A statement being read from left to right.
struct Reading<'a> {
    statement: &'a Statement<'a>,
    followed: &'a [TableName],
    /// What is still to be read.
    tokens: &'a [Token],
    effects: Vec<DdlEffect>,
}

impl<'a> Reading<'a> {
    /// Passes over the keyword if it is next.
    fn skip(&mut self, keyword: &str) -> bool {
        match self.tokens {
            [first, rest @ ..] if first.is(keyword) => {
                self.tokens = rest;
                true
            }
            _ => false,
        }
    }

    fn skip_any(&mut self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.skip(keyword))
    }

    fn skip_sign(&mut self, sign: char) -> bool {
        match self.tokens {
            [first, rest @ ..] if first.is_sign(sign) => {
                self.tokens = rest;
                true
            }
            _ => false,
        }
    }

    /// `IF EXISTS` or `IF NOT EXISTS`.
    fn skip_if_exists(&mut self) -> bool {
        let conditional = self.skip("IF");
        if conditional {
            self.skip("NOT");
            self.skip("EXISTS");
        }
        conditional
    }

    /// A name, with or without its database. None where there is no name.
    fn table(&mut self) -> Option<TableName> {
        let (first, rest) = self.tokens.split_first()?;
        let first = first.name()?.to_owned();
        self.tokens = rest;
        if self.skip_sign('.') {
            let (name, rest) = self.tokens.split_first()?;
            self.tokens = rest;
            return Some(self.as_followed(TableName::new(first, name.name()?)));
        }
        Some(self.as_followed(TableName::new(self.statement.default_db, first)))
    }

    /// The followed table of this name as it is followed; otherwise the name as it is.
    fn as_followed(&self, table: TableName) -> TableName {
        if self.statement.lower_case_table_names == 0 || self.followed.contains(&table) {
            return table;
        }
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        let found = self.followed.iter().find(|f| same(&f.schema, &table.schema) && same(&f.name, &table.name));
        found.cloned().unwrap_or(table)
    }

    fn is_followed(&self, table: &TableName) -> bool {
        self.followed.contains(table)
    }

    fn effect(&mut self, table: TableName, effect: impl FnOnce(TableName) -> DdlEffect) {
        if self.is_followed(&table) {
            self.effects.push(effect(table));
        }
    }

    fn renamed(&mut self, from: TableName, to: TableName) {
        if from != to && (self.is_followed(&from) || self.is_followed(&to)) {
            self.effects.push(DdlEffect::Renamed { from, to });
        }
    }

    /// Reads the statement. None where its kind is not known.
    fn head(&mut self) -> Option<()> {
        // `SET STATEMENT lock_wait_timeout=1 FOR ALTER TABLE ..` of MariaDB.
        if let [set, statement, ..] = self.tokens
            && set.is("SET")
            && statement.is("STATEMENT")
        {
            let after = self.tokens.iter().position(|token| token.is("FOR"))? + 1;
            self.tokens = self.tokens.get(after..)?;
        }
        let Some((first, rest)) = self.tokens.split_first() else { return Some(()) };
        let Token::Word(verb) = first else { return None };
        self.tokens = rest;
        match verb.to_ascii_uppercase().as_str() {
            "CREATE" => self.create(),
            "DROP" => self.drop_(),
            "TRUNCATE" => {
                self.skip("TABLE");
                let table = self.table()?;
                self.effect(table, DdlEffect::Truncated);
                Some(())
            }
            "RENAME" => self.rename(),
            "ALTER" => self.alter(),
            "INSERT" | "REPLACE" | "UPDATE" | "DELETE" | "LOAD" | "WITH" | "SELECT" | "CALL" | "DO" | "TABLE"
            | "VALUES" | "IMPORT" => {
                for table in self.mentioned(rest) {
                    self.effects.push(DdlEffect::ChangedByStatement(table));
                }
                Some(())
            }
            // Transactions; accounts; settings; maintenance and flushes, which leave rows as they are; plugins. REPAIR throws rows
            // away that cannot be read any more; InnoDB has no such thing.
            "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "XA" | "GRANT" | "REVOKE" | "SET"
            | "FLUSH" | "RESET" | "ANALYZE" | "OPTIMIZE" | "REPAIR" | "CHECK" | "CHECKSUM" | "CACHE" | "INSTALL"
            | "UNINSTALL" | "LOCK" | "UNLOCK" | "USE" | "SHOW" | "KILL" | "CHANGE" | "STOP" | "PURGE" | "SHUTDOWN"
            | "RESTART" | "CLONE" | "BINLOG" | "HELP" | "EXPLAIN" | "DESCRIBE" | "DESC" | "COMMENT" => Some(()),
            _ => None,
        }
    }

    fn create(&mut self) -> Option<()> {
        let replace = self.skip("OR") && self.skip("REPLACE");
        if self.skip("TEMPORARY") {
            return Some(());
        }
        let words = self.tokens;
        while self.skip_any(&["UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE", "OFFLINE"]) {}
        let unique = words.iter().take(words.len() - self.tokens.len()).any(|token| token.is("UNIQUE"));
        if self.skip("TABLE") {
            let if_not_exists = self.skip_if_exists();
            let table = self.table()?;
            self.effect(table.clone(), |table| DdlEffect::Created { table, if_not_exists });
            // Where it may have been there before, nothing is known of it.
            if !if_not_exists {
                self.copy(table);
            }
        } else if self.skip("INDEX") {
            return self.index(unique);
        } else if replace && self.skip_any(&["DATABASE", "SCHEMA"]) {
            self.skip_if_exists();
            return self.drop_database();
        }
        self.create_trigger();
        // Views, routines, events, users, sequences, databases, ..
        Some(())
    }

    /// After the name of a table that is made: whether it is a copy of a followed one, made by a tool.
    fn copy(&mut self, table: TableName) {
        let inside = match self.tokens {
            [open, like, ..] if open.is_sign('(') && like.is("LIKE") => self.skip_sign('('),
            _ => false,
        };
        if self.skip("LIKE") {
            let like = self.table().filter(|of| self.is_followed(of) && shadow::is_ghost(&table.name));
            let over = if inside { self.skip_sign(')') } else { self.tokens.is_empty() };
            if let Some(of) = like.filter(|_| over) {
                self.effects.push(DdlEffect::Copied { table, of, written: None });
            }
            return;
        }
        let Some(of) = self.followed.iter().find(|of| shadow::is_new(&table, of)).cloned() else { return };
        let real_as_float = self.statement.sql_mode & alter::REAL_AS_FLOAT != 0;
        let Some((written, rest)) = WrittenTable::read(Cursor(self.tokens), real_as_float) else { return };
        if shadow::is_filled(rest.0) {
            return;
        }
        let character_set = match alter::character_set(rest.0) {
            None => None,
            Some(alter::NamedSet::Known(name)) => Some(name),
            Some(alter::NamedSet::Unknown) => return,
        };
        let written = Some(WrittenTable { character_set, ..written });
        self.effects.push(DdlEffect::Copied { table, of, written });
    }

    fn drop_(&mut self) -> Option<()> {
        if self.skip("TEMPORARY") {
            return Some(());
        }
        if self.skip_any(&["TABLE", "TABLES"]) {
            self.skip_if_exists();
            loop {
                let table = self.table()?;
                self.effect(table, DdlEffect::Dropped);
                if !self.skip_sign(',') {
                    return Some(());
                }
            }
        }
        if self.skip_any(&["DATABASE", "SCHEMA"]) {
            self.skip_if_exists();
            return self.drop_database();
        }
        while self.skip_any(&["ONLINE", "OFFLINE"]) {}
        if self.skip("INDEX") {
            return self.index(false);
        }
        if self.skip("TRIGGER") {
            return self.drop_trigger();
        }
        // Views, routines, events, users, sequences, ..
        Some(())
    }

    fn drop_database(&mut self) -> Option<()> {
        let database = self.tokens.first()?.name()?;
        let same = |table: &&TableName| match self.statement.lower_case_table_names {
            0 => table.schema == database,
            _ => table.schema.to_lowercase() == database.to_lowercase(),
        };
        let dropped: Vec<TableName> = self.followed.iter().filter(same).cloned().collect();
        self.effects.extend(dropped.into_iter().map(DdlEffect::Dropped));
        Some(())
    }

    /// `[IF [NOT] EXISTS] name [USING ..] ON table ..` after INDEX. `` DROP INDEX `PRIMARY` `` drops the key.
    fn index(&mut self, unique: bool) -> Option<()> {
        self.skip_if_exists();
        let primary = self.tokens.first()?.name()?.eq_ignore_ascii_case("PRIMARY");
        let on = self.tokens.iter().position(|token| token.is("ON"))?;
        self.tokens = self.tokens.get(on + 1..)?;
        let table = self.table()?;
        let changes = if primary { vec![TableChange::DropKey] } else { Vec::new() };
        let alteration = Alteration { changes, constrains: unique, unique, ..Alteration::default() };
        self.effect(table, |table| DdlEffect::Altered { table, alteration });
        Some(())
    }

    fn rename(&mut self) -> Option<()> {
        if !self.skip_any(&["TABLE", "TABLES"]) {
            // Users.
            return Some(());
        }
        self.skip_if_exists();
        loop {
            let from = self.table()?;
            // MariaDB: how long to wait for the lock.
            if self.skip("WAIT") {
                self.tokens = self.tokens.get(1..)?;
            }
            self.skip("NOWAIT");
            if !self.skip("TO") {
                return None;
            }
            let to = self.table()?;
            self.renamed(from, to);
            if !self.skip_sign(',') {
                return Some(());
            }
        }
    }

    /// The followed tables that these tokens name.
    fn mentioned(&self, tokens: &'a [Token]) -> Vec<TableName> {
        let mut found = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            let Some(name) = token.name() else { continue };
            let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
            // What follows a point is a table of that database, or a column.
            let qualified = before(1).is_some_and(|token| token.is_sign('.'));
            let schema = if qualified { before(2).and_then(Token::name) } else { Some(self.statement.default_db) };
            let Some(schema) = schema else { continue };
            let table = self.as_followed(TableName::new(schema, name));
            if self.is_followed(&table) && !found.contains(&table) {
                found.push(table);
            }
        }
        found
    }

    fn not_understood(&mut self, tokens: &'a [Token]) {
        for table in self.mentioned(tokens) {
            let known = self.effects.iter().any(|effect| *effect == DdlEffect::NotUnderstood(table.clone()));
            if !known {
                self.effects.push(DdlEffect::NotUnderstood(table));
            }
        }
    }
}

#[cfg(all(test, feature = "servers"))]
mod apply_server_tests;
#[cfg(test)]
mod apply_tests;
#[cfg(all(test, feature = "servers"))]
mod server_tests;
#[cfg(test)]
mod tests;
