//! ALTER TABLE, change by change (MySQL manual, "ALTER TABLE Statement"; MariaDB manual, "ALTER TABLE").

use calve_core::TableName;

use super::change::{Alteration, TableChange};
use super::cursor::{Cursor, split_at_commas};
use super::token::Token;
use super::{DdlEffect, Reading};
use crate::charset;

/// `sql_mode` in which REAL is FLOAT.
pub(super) const REAL_AS_FLOAT: u64 = 1;

/// What one change of an ALTER TABLE does.
enum Change {
    /// Indexes, options, what is taken away: rows and their decoding stay as they are.
    Nothing,
    /// Unique indexes, constraints, partitioning: the same, of a table whose rows fit.
    Constrains,
    /// A default of a column, which rows that are there do not have.
    Default(String),
    /// The same, of some partitions: no other change can follow, only their names.
    OfPartitions,
    /// The same; what follows may be more columns to order by.
    Ordered,
    /// Columns, the primary key, or the character set of columns to come.
    Columns(Vec<TableChange>),
    /// The same, with what rows may not fit.
    ConstrainedColumns(Vec<TableChange>),
    /// Rows went without row events.
    Discards,
    /// Rows came without row events, or went and will come again.
    Imports,
    /// The same, and for another table too.
    Exchanges(TableName),
    /// Rows of this table become those of another one, or the other way round (MariaDB).
    MovesTo(TableName),
    MovesFrom(TableName),
    RenamesTo(TableName),
}

/// What follows ADD.
enum Added {
    Nothing,
    Constraint,
    Key,
    Columns,
    /// That the table keeps its history.
    Other,
}

/// What follows DROP.
enum Dropped {
    Nothing,
    Discards,
    Key,
    Column,
    Other,
}

impl Reading<'_> {
    /// After ALTER.
    pub(super) fn alter(&mut self) -> Option<()> {
        let words = self.tokens;
        while self.skip_any(&["ONLINE", "OFFLINE", "IGNORE"]) {}
        let ignore = words.iter().take(words.len() - self.tokens.len()).any(|token| token.is("IGNORE"));
        if !self.skip("TABLE") {
            // Users, databases, events, routines, views, servers, tablespaces, sequences, ..
            return Some(());
        }
        self.skip_if_exists();
        let table = self.table()?;
        // MariaDB: how long to wait for the lock.
        if self.skip("WAIT") {
            self.tokens = self.tokens.get(1..)?;
        }
        self.skip("NOWAIT");
        let mut alteration = Alteration { ignore, ..Alteration::default() };
        let (mut ordered, mut renamed) = (false, None);
        for change in split_at_commas(self.tokens) {
            if ordered && is_order(change) {
                continue;
            }
            self.tokens = change;
            // It is reserved, and no name without quotes.
            alteration.unique |= change.iter().any(|token| token.is("UNIQUE"));
            match self.change()? {
                Change::Nothing => {}
                Change::Constrains => alteration.constrains = true,
                Change::Default(column) => alteration.defaults.push(column),
                Change::OfPartitions => {
                    alteration.constrains = true;
                    break;
                }
                Change::Ordered => ordered = true,
                Change::Columns(changes) => {
                    alteration.constrains |= changes.iter().any(TableChange::constrains);
                    alteration.changes.extend(changes);
                }
                Change::ConstrainedColumns(changes) => {
                    alteration.constrains = true;
                    alteration.changes.extend(changes);
                }
                Change::Discards => {
                    self.effect(table.clone(), DdlEffect::RowsGone);
                    break;
                }
                Change::Imports => {
                    self.effect(table.clone(), DdlEffect::RowsUnknown);
                    break;
                }
                Change::Exchanges(other) => {
                    self.effect(table.clone(), DdlEffect::RowsUnknown);
                    self.effect(other, DdlEffect::RowsUnknown);
                }
                Change::MovesTo(other) => {
                    self.effect(table.clone(), DdlEffect::RowsGone);
                    self.effect(other, |table| DdlEffect::Created { table, if_not_exists: false });
                }
                Change::MovesFrom(other) => {
                    self.effect(table.clone(), DdlEffect::RowsUnknown);
                    self.effect(other, DdlEffect::Dropped);
                }
                Change::RenamesTo(to) => renamed = Some(to),
            }
        }
        let of_rows =
            |effect: &DdlEffect| matches!(effect, DdlEffect::RowsGone(t) | DdlEffect::RowsUnknown(t) if *t == table);
        if !alteration.changes.is_empty() || !self.effects.iter().any(of_rows) {
            self.effect(table.clone(), |table| DdlEffect::Altered { table, alteration });
        }
        if let Some(to) = renamed {
            self.renamed(table, to);
        }
        Some(())
    }

    /// One change. None where it is not known.
    fn change(&mut self) -> Option<Change> {
        let Some((first, rest)) = self.tokens.split_first() else { return Some(Change::Nothing) };
        let Token::Word(verb) = first else { return None };
        let whole = self.tokens;
        self.tokens = rest;
        let cursor = Cursor(rest);
        let real_as_float = self.statement.sql_mode & REAL_AS_FLOAT != 0;
        let columns = |changes: Option<Vec<TableChange>>| {
            Some(Change::Columns(changes.unwrap_or_else(|| vec![TableChange::other(whole)])))
        };
        let column = |change: Option<TableChange>| columns(change.map(|change| vec![change]));
        match verb.to_ascii_uppercase().as_str() {
            "ADD" => match self.add() {
                Added::Nothing => Some(Change::Nothing),
                Added::Constraint => Some(Change::Constrains),
                Added::Key => column(TableChange::add_key(Cursor(self.tokens))),
                Added::Columns => match TableChange::add(Cursor(self.tokens), real_as_float) {
                    Some((changes, true)) => Some(Change::ConstrainedColumns(changes)),
                    added => columns(added.map(|(changes, _)| changes)),
                },
                Added::Other => columns(None),
            },
            "DROP" => match self.drop_part() {
                Dropped::Nothing => Some(Change::Nothing),
                Dropped::Discards => Some(Change::Discards),
                Dropped::Key => column(Some(TableChange::DropKey)),
                Dropped::Column => column(TableChange::drop(Cursor(self.tokens))),
                Dropped::Other => columns(None),
            },
            "MODIFY" => column(TableChange::define(cursor, false, real_as_float)),
            "CHANGE" => column(TableChange::define(cursor, true, real_as_float)),
            "RENAME" if matches!(rest, [kind, second, ..] if kind.is("COLUMN") && second.name().is_some()) => {
                column(TableChange::rename(Cursor(rest.get(1..)?)))
            }
            "ORDER" => Some(Change::Ordered),
            "RENAME" => self.rename_part(),
            "CONVERT" => self.convert(),
            // Of partitions.
            "TRUNCATE" => Some(Change::Discards),
            // Of partitions, or of the whole tablespace.
            "DISCARD" | "IMPORT" => Some(Change::Imports),
            "EXCHANGE" => {
                let with = self.tokens.iter().position(|token| token.is("WITH"))?;
                self.tokens = self.tokens.get(with + 1..)?;
                self.skip("TABLE");
                self.table().map(Change::Exchanges)
            }
            // Rows move between partitions, or are looked at.
            "COALESCE" | "REORGANIZE" | "ANALYZE" | "CHECK" | "OPTIMIZE" | "REBUILD" | "REPAIR" => {
                Some(Change::OfPartitions)
            }
            "ALTER" => Some(altered(cursor)),
            "PARTITION" => Some(Change::Constrains),
            "ENABLE" | "DISABLE" | "FORCE" | "WITH" | "WITHOUT" | "REMOVE" | "SECONDARY_LOAD" | "SECONDARY_UNLOAD" => {
                Some(Change::Nothing)
            }
            _ => self.options(first),
        }
    }

    fn add(&mut self) -> Added {
        if self.skip("CONSTRAINT") {
            // Its name may be left out.
            let kinds = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"];
            if !self.tokens.first().is_some_and(|token| kinds.iter().any(|kind| token.is(kind))) {
                self.skip_if_exists();
                self.tokens = self.tokens.get(1..).unwrap_or_default();
            }
            return if self.skip("PRIMARY") { Added::Key } else { Added::Constraint };
        }
        if self.skip("PRIMARY") {
            return Added::Key;
        }
        // A column of such a name would stand in quotes, for these words are reserved.
        if self.skip_any(&["INDEX", "KEY", "FULLTEXT", "SPATIAL"]) {
            return Added::Nothing;
        }
        if self.skip_any(&["UNIQUE", "FOREIGN", "CHECK", "PARTITION"]) {
            return Added::Constraint;
        }
        // These are not.
        match self.tokens {
            [first, second, ..] if first.is("VECTOR") && (second.is("INDEX") || second.is("KEY")) => Added::Nothing,
            [first, second, ..] if first.is("SYSTEM") && second.is("VERSIONING") => Added::Other,
            [first, second, ..] if first.is("PERIOD") && second.is("FOR") => Added::Other,
            _ => {
                self.skip("COLUMN");
                Added::Columns
            }
        }
    }

    fn drop_part(&mut self) -> Dropped {
        if self.skip("PARTITION") {
            return Dropped::Discards;
        }
        if self.skip("PRIMARY") {
            return Dropped::Key;
        }
        if self.skip_any(&["INDEX", "KEY", "CONSTRAINT"]) {
            self.skip_if_exists();
            let primary =
                self.tokens.first().and_then(Token::name).is_some_and(|name| name.eq_ignore_ascii_case("PRIMARY"));
            return if primary { Dropped::Key } else { Dropped::Nothing };
        }
        if self.skip_any(&["FOREIGN", "CHECK"]) {
            return Dropped::Nothing;
        }
        match self.tokens {
            [first, second, ..] if first.is("SYSTEM") && second.is("VERSIONING") => Dropped::Other,
            [first, second, ..] if first.is("PERIOD") && second.is("FOR") => Dropped::Other,
            _ => {
                self.skip("COLUMN");
                Dropped::Column
            }
        }
    }

    fn rename_part(&mut self) -> Option<Change> {
        if let [kind, second, ..] = self.tokens
            && second.name().is_some()
            && (kind.is("INDEX") || kind.is("KEY"))
        {
            return Some(Change::Nothing);
        }
        if !self.skip_any(&["TO", "AS"]) {
            self.skip_sign('=');
        }
        self.table().map(Change::RenamesTo)
    }

    fn convert(&mut self) -> Option<Change> {
        if self.skip("PARTITION") {
            let to = self.tokens.windows(2).position(|pair| matches!(pair, [a, b] if a.is("TO") && b.is("TABLE")))?;
            self.tokens = self.tokens.get(to + 2..)?;
            return self.table().map(Change::MovesTo);
        }
        if self.skip("TABLE") {
            return self.table().map(Change::MovesFrom);
        }
        let words = self.tokens;
        self.skip("TO");
        let changes = match character_set(self.tokens) {
            Some(NamedSet::Known(name)) => TableChange::ConvertTo(name),
            _ => TableChange::other(words),
        };
        Some(Change::Columns(vec![changes]))
    }

    /// `[DEFAULT] name [=] value ..`, as many as follow each other without a comma.
    fn options(&self, first: &Token) -> Option<Change> {
        /// Those that may do without the sign.
        const KNOWN: &[&str] = &[
            "ALGORITHM",
            "AUTOEXTEND_SIZE",
            "AUTO_INCREMENT",
            "AVG_ROW_LENGTH",
            "CHARACTER",
            "CHARSET",
            "CHECKSUM",
            "COLLATE",
            "COMMENT",
            "COMPRESSION",
            "CONNECTION",
            "DATA",
            "DEFAULT",
            "DELAY_KEY_WRITE",
            "ENCRYPTION",
            "ENGINE",
            "ENGINE_ATTRIBUTE",
            "INDEX",
            "INSERT_METHOD",
            "KEY_BLOCK_SIZE",
            "LOCK",
            "MAX_ROWS",
            "MIN_ROWS",
            "PACK_KEYS",
            "PAGE_CHECKSUM",
            "PASSWORD",
            "ROW_FORMAT",
            "SECONDARY_ENGINE",
            "SECONDARY_ENGINE_ATTRIBUTE",
            "START",
            "STATS_AUTO_RECALC",
            "STATS_PERSISTENT",
            "STATS_SAMPLE_PAGES",
            "STORAGE",
            "TABLESPACE",
            "TABLE_CHECKSUM",
            "TRANSACTIONAL",
            "TYPE",
            "UNION",
        ];
        let assigned = self.tokens.first().is_some_and(|token| token.is_sign('='));
        if !assigned && !KNOWN.iter().any(|known| first.is(known)) {
            return None;
        }
        let engine = match self.tokens {
            [value, ..] if first.is("ENGINE") && !assigned => Some(value),
            _ => engine(std::iter::once(first).chain(self.tokens).collect::<Vec<_>>().as_slice()),
        };
        // Another engine may lose all rows (BLACKHOLE), and is for `describe` to refuse.
        let kept = engine
            .and_then(Token::name)
            .is_none_or(|name| ["INNODB", "ROCKSDB"].iter().any(|kept| name.eq_ignore_ascii_case(kept)));
        let whole: Vec<Token> = std::iter::once(first).chain(self.tokens).cloned().collect();
        if !kept {
            return Some(Change::Columns(vec![TableChange::other(&whole)]));
        }
        // `ENGINE=InnoDB PARTITION BY ..` is one.
        let partitions = self.tokens.windows(2).any(|pair| matches!(pair, [a, b] if a.is("PARTITION") && b.is("BY")));
        Some(match character_set(&whole) {
            None if partitions => Change::Constrains,
            None => Change::Nothing,
            Some(NamedSet::Known(name)) => Change::Columns(vec![TableChange::DefaultCharacterSet(name)]),
            Some(NamedSet::Unknown) => Change::Columns(vec![TableChange::other(&whole)]),
        })
    }
}

/// A character set that a statement names.
pub(super) enum NamedSet {
    /// As catalogs call it.
    Known(String),
    /// Nobody knows it, or it is that of the database.
    Unknown,
}

/// What follows ALTER: visibility and checks leave rows alone, and they carry their values themselves.
fn altered(mut cursor: Cursor<'_>) -> Change {
    if cursor.skip("CHECK") || cursor.skip("CONSTRAINT") {
        return Change::Constrains;
    }
    if cursor.skip("INDEX") || cursor.skip("KEY") {
        return Change::Nothing;
    }
    cursor.skip("COLUMN");
    let _ = cursor.skip_all(&["IF", "EXISTS"]);
    match (cursor.name(), cursor.skip_all(&["SET", "DEFAULT"])) {
        (Some(column), true) => Change::Default(column.to_owned()),
        _ => Change::Nothing,
    }
}

/// The character set that options give to a table, by its own name or by that of a collation. None where they name neither.
pub(super) fn character_set(options: &[Token]) -> Option<NamedSet> {
    let (mut found, mut collation) = (None, None);
    let mut cursor = Cursor(options);
    while !cursor.is_empty() && !cursor.0.first().is_some_and(|token| token.is("PARTITION")) {
        let of_set =
            cursor.skip_all(&["CHARACTER", "SET"]) || cursor.skip_all(&["CHAR", "SET"]) || cursor.skip("CHARSET");
        if !of_set && !cursor.skip("COLLATE") {
            cursor.next();
            continue;
        }
        cursor.skip_sign('=');
        let name = match cursor.next() {
            Some(Token::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            Some(other) => other.name().unwrap_or_default().to_owned(),
            None => String::new(),
        };
        if of_set {
            found = Some(charset::catalog_name(&name).map_or(NamedSet::Unknown, NamedSet::Known));
        } else {
            collation = charset::of_collation(&name).map(NamedSet::Known);
        }
    }
    // A collation that names no set is one of whatever the set is.
    found.or(collation)
}

/// A column to order by.
fn is_order(tokens: &[Token]) -> bool {
    match tokens {
        [name] => name.name().is_some(),
        [name, way] => name.name().is_some() && (way.is("ASC") || way.is("DESC")),
        _ => false,
    }
}

/// The value of an ENGINE among options.
fn engine<'t>(options: &[&'t Token]) -> Option<&'t Token> {
    let at = options.iter().position(|token| token.is("ENGINE"))?;
    let value = |at: usize| options.get(at).copied();
    value(at + 1).and_then(|next| if next.is_sign('=') { value(at + 2) } else { Some(next) })
}
