//! ALTER TABLE, change by change (MySQL manual, "ALTER TABLE Statement"; MariaDB manual, "ALTER TABLE").

use calve_core::TableName;

use super::token::Token;
use super::{DdlEffect, Reading};

/// What one change of an ALTER TABLE does.
enum Change {
    /// Indexes, constraints, options, partitioning: rows and their decoding stay as they are.
    Nothing,
    /// The same, of some partitions: no other change can follow, only their names.
    OfPartitions,
    /// The same; what follows may be more columns to order by.
    Ordered,
    /// Columns or the primary key.
    Columns,
    /// Rows came or went without row events.
    Discards,
    /// The same, and for another table too.
    Exchanges(TableName),
    /// Rows of this table become those of another one, or the other way round (MariaDB).
    MovesTo(TableName),
    MovesFrom(TableName),
    RenamesTo(TableName),
}

impl Reading<'_> {
    /// After ALTER.
    pub(super) fn alter(&mut self) -> Option<()> {
        while self.skip_any(&["ONLINE", "OFFLINE", "IGNORE"]) {}
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
        let (mut columns, mut ordered, mut renamed) = (false, false, None);
        for change in split_at_commas(self.tokens) {
            if ordered && is_order(change) {
                continue;
            }
            self.tokens = change;
            match self.change()? {
                Change::Nothing => {}
                Change::OfPartitions => break,
                Change::Ordered => ordered = true,
                Change::Columns => columns = true,
                Change::Discards => {
                    self.effect(table.clone(), DdlEffect::PartitionsDiscarded);
                    break;
                }
                Change::Exchanges(other) => {
                    self.effect(table.clone(), DdlEffect::PartitionsDiscarded);
                    self.effect(other, DdlEffect::PartitionsDiscarded);
                }
                Change::MovesTo(other) => {
                    self.effect(table.clone(), DdlEffect::PartitionsDiscarded);
                    self.effect(other, |table| DdlEffect::Created { table, if_not_exists: false });
                }
                Change::MovesFrom(other) => {
                    self.effect(table.clone(), DdlEffect::PartitionsDiscarded);
                    self.effect(other, DdlEffect::Dropped);
                }
                Change::RenamesTo(to) => renamed = Some(to),
            }
        }
        let discarded = |effect: &DdlEffect| *effect == DdlEffect::PartitionsDiscarded(table.clone());
        if columns || !self.effects.iter().any(discarded) {
            self.effect(table.clone(), |table| DdlEffect::Altered { table, columns });
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
        self.tokens = rest;
        match verb.to_ascii_uppercase().as_str() {
            "ADD" => Some(self.add()),
            "DROP" => Some(self.drop_part()),
            "MODIFY" | "CHANGE" => Some(Change::Columns),
            "ORDER" => Some(Change::Ordered),
            "RENAME" => self.rename_part(),
            "CONVERT" => self.convert(),
            // Of partitions, or of the whole tablespace.
            "TRUNCATE" | "DISCARD" | "IMPORT" => Some(Change::Discards),
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
            // Defaults, visibility, checks: rows carry their values themselves.
            "ALTER" | "ENABLE" | "DISABLE" | "FORCE" | "WITH" | "WITHOUT" | "REMOVE" | "PARTITION"
            | "SECONDARY_LOAD" | "SECONDARY_UNLOAD" => Some(Change::Nothing),
            _ => self.options(first),
        }
    }

    fn add(&mut self) -> Change {
        if self.skip("CONSTRAINT") {
            // Its name may be left out.
            let kinds = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"];
            if !self.tokens.first().is_some_and(|token| kinds.iter().any(|kind| token.is(kind))) {
                self.skip_if_exists();
                self.tokens = self.tokens.get(1..).unwrap_or_default();
            }
            return if self.skip("PRIMARY") { Change::Columns } else { Change::Nothing };
        }
        // A column of such a name would stand in quotes, for these words are reserved.
        if self.skip_any(&["INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "PARTITION"]) {
            return Change::Nothing;
        }
        // This one is not.
        if self.skip("VECTOR") && self.skip_any(&["INDEX", "KEY"]) {
            return Change::Nothing;
        }
        // PRIMARY KEY, PERIOD FOR, SYSTEM VERSIONING, or a column.
        Change::Columns
    }

    fn drop_part(&mut self) -> Change {
        if self.skip("PARTITION") {
            return Change::Discards;
        }
        if self.skip_any(&["INDEX", "KEY", "CONSTRAINT"]) {
            self.skip_if_exists();
            let primary =
                self.tokens.first().and_then(Token::name).is_some_and(|name| name.eq_ignore_ascii_case("PRIMARY"));
            return if primary { Change::Columns } else { Change::Nothing };
        }
        if self.skip_any(&["FOREIGN", "CHECK"]) {
            return Change::Nothing;
        }
        // PRIMARY KEY, PERIOD, SYSTEM VERSIONING, or a column.
        Change::Columns
    }

    fn rename_part(&mut self) -> Option<Change> {
        if let [kind, second, ..] = self.tokens
            && second.name().is_some()
        {
            if kind.is("COLUMN") {
                return Some(Change::Columns);
            }
            if kind.is("INDEX") || kind.is("KEY") {
                return Some(Change::Nothing);
            }
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
        // To another character set.
        Some(Change::Columns)
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
        Some(if kept { Change::Nothing } else { Change::Columns })
    }
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

/// The parts between commas that stand in no parentheses.
fn split_at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    tokens
        .split(|token| {
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && token.is_sign(',')
        })
        .collect()
}
