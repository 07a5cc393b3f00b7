//! A table that is changed at random: what it looks like now, and statements upon it.

use calve_testkit::servers::Kind;

use super::types::{self, Type};
use crate::random::Random;

/// Ids of its rows are below this.
const IDS: u64 = 400;
/// Columns beside the key, at most.
const MOST_COLUMNS: usize = 12;
/// Changes that rows in the lake can follow.
const FOLLOWED: [&str; 9] = ["add", "add two", "drop", "rename", "widen", "truncate", "index", "comment", "move"];

/// A column beside the key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    ty: Type,
    nullable: bool,
}

/// A table as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    kind: Kind,
    name: String,
    /// The key is `(id, part)`, not `id` alone.
    two_parts: bool,
    /// Only what rows in the lake can follow is done to it: a table that stops is not looked at until the round is over.
    calm: bool,
    columns: Vec<Column>,
    /// Names its columns ever had, so that an old name can come again.
    names: u64,
}

/// Statements, and the table as it is once they are done.
pub(super) struct Change {
    /// What it is, for counting.
    pub(super) what: &'static str,
    pub(super) sql: String,
    pub(super) after: Table,
}

impl Table {
    /// A new table of this name.
    pub(super) fn new(kind: Kind, name: &str, random: &mut Random) -> Self {
        let (two_parts, calm) = (random.chance(30), random.chance(60));
        let mut table = Self { kind, name: name.to_owned(), two_parts, calm, columns: Vec::new(), names: 0 };
        for _ in 0..random.between(2, 6) {
            let column = table.new_column(random);
            table.columns.push(column);
        }
        table
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn new_column(&mut self, random: &mut Random) -> Column {
        // A fifth of them take a name that was there before.
        let number = if self.names > 0 && random.chance(20) { random.below(self.names) } else { self.names };
        self.names += 1;
        let mut name = format!("c{number}");
        if self.columns.iter().any(|column| column.name == name) {
            name = format!("c{}", self.names);
            self.names += 1;
        }
        Column { name, ty: *random.pick(types::all(self.kind)), nullable: true }
    }

    fn is_postgres(&self) -> bool {
        self.kind == Kind::Postgres
    }

    /// The statement that makes it.
    pub(super) fn create(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(definition).collect();
        let key = if self.two_parts { "id, part" } else { "id" };
        format!(
            "create table {} (id bigint not null, part int not null default 0, {}, primary key ({key}))",
            self.name,
            columns.join(", ")
        )
    }

    fn literal(&self, column: &Column, random: &mut Random) -> String {
        if column.nullable && random.chance(20) { "null".to_owned() } else { column.ty.literal(self.kind, random) }
    }

    /// Inserts, updates and deletes of a few rows.
    pub(super) fn rows(&self, random: &mut Random) -> String {
        match random.below(100) {
            0..55 => self.insert(random),
            55..85 => self.update(random),
            85..93 => format!("delete from {} where id between {}", self.name, range(random)),
            93..99 => {
                // Where the other ids are taken nothing is done.
                let (from, to) = (random.below(IDS), random.below(IDS));
                format!("update {} set id = {to} where id = {from} and part = 0", self.name)
            }
            _ => format!("delete from {}", self.name),
        }
    }

    fn insert(&self, random: &mut Random) -> String {
        let ids: Vec<u64> = (0..random.between(1, 12)).map(|_| random.below(IDS)).collect();
        self.insert_under(&ids, random)
    }

    /// A row after which the log knows every column: Postgres tells of them when the next row comes.
    pub(super) fn last_row(&self, number: u32, random: &mut Random) -> String {
        self.insert_under(&[IDS + u64::from(number)], random)
    }

    fn insert_under(&self, ids: &[u64], random: &mut Random) -> String {
        let mut row = |id| {
            let values: Vec<String> = self.columns.iter().map(|column| self.literal(column, random)).collect();
            let part = if self.two_parts { random.below(3) } else { 0 };
            format!("({id}, {part}, {})", values.join(", "))
        };
        let rows: Vec<String> = ids.iter().map(|id| row(*id)).collect();
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let (ignore, conflict) = if self.is_postgres() { ("", " on conflict do nothing") } else { (" ignore", "") };
        format!(
            "insert{ignore} into {} (id, part, {}) values {}{conflict}",
            self.name,
            names.join(", "),
            rows.join(", ")
        )
    }

    fn update(&self, random: &mut Random) -> String {
        let column = random.pick(&self.columns);
        let value = self.literal(column, random);
        format!("update {} set {} = {value} where id between {}", self.name, column.name, range(random))
    }

    /// A change of its definition.
    pub(super) fn change(&self, random: &mut Random) -> Change {
        loop {
            let draw = random.below(100);
            let tried = if draw < 85 { self.change_columns(draw, random) } else { self.change_table(draw, random) };
            if let Some(change) = tried
                && (!self.calm || FOLLOWED.contains(&change.what))
            {
                return change;
            }
        }
    }

    /// Where the draw's kind of change is possible now.
    fn change_columns(&self, draw: u64, random: &mut Random) -> Option<Change> {
        let mut after = self.clone();
        let at = usize::try_from(random.below(self.columns.len() as u64)).ok()?;
        let column = &self.columns[at];
        let with = |action: String| format!("alter table {} {action}", self.name);
        let may_add = self.columns.len() < MOST_COLUMNS;
        let (what, sql) = match draw {
            0..22 if may_add => {
                let added = after.new_column(random);
                let sql = with(format!("add column {}", definition(&added)));
                after.columns.push(added);
                ("add", sql)
            }
            22..28 if may_add => {
                let mut added = after.new_column(random);
                if added.ty.sql.contains("text") || added.ty.sql == "blob" {
                    // MySQL has no defaults for these.
                    return None;
                }
                added.nullable = random.chance(50);
                let default = added.ty.literal(self.kind, random);
                let sql = with(format!("add column {} default {default}", definition(&added)));
                after.columns.push(added);
                ("add with default", sql)
            }
            28..42 if self.columns.len() > 1 => {
                after.columns.remove(at);
                ("drop", with(format!("drop column {}", column.name)))
            }
            42..54 => {
                let renamed = after.new_column(random).name;
                let sql = with(format!("rename column {} to {renamed}", column.name));
                after.columns[at].name = renamed;
                ("rename", sql)
            }
            54..68 => {
                after.columns[at].ty = column.ty.widened(self.kind, random)?;
                ("widen", with(self.redefine(&after.columns[at], false)))
            }
            68..71 => {
                after.columns[at].ty = Type::text(self.kind);
                ("convert", with(self.redefine(&after.columns[at], true)))
            }
            71..77 => {
                after.columns[at].nullable = !column.nullable;
                ("nullability", self.change_nullability(&after.columns[at], random))
            }
            77..80 => {
                let default = column.ty.literal(self.kind, random);
                if column.ty.sql.contains("text") || column.ty.sql == "blob" {
                    return None;
                }
                ("default", with(format!("alter column {} set default {default}", column.name)))
            }
            80..85 if may_add => {
                let names = [after.new_column(random).name, after.new_column(random).name];
                if names[0] == names[1] || self.columns.iter().any(|column| names.contains(&column.name)) {
                    return None;
                }
                let added = names.map(|name| Column { name, ty: *random.pick(types::all(self.kind)), nullable: true });
                let actions = added.each_ref().map(|column| format!("add column {}", definition(column)));
                after.columns.extend(added);
                ("add two", with(actions.join(", ")))
            }
            _ => return None,
        };
        Some(Change { what, sql, after })
    }

    /// As [`change_columns`](Self::change_columns), of what concerns the whole table, or nothing in it.
    fn change_table(&self, draw: u64, random: &mut Random) -> Option<Change> {
        let mut after = self.clone();
        let with = |action: String| format!("alter table {} {action}", self.name);
        let (what, sql) = match draw {
            85..88 => ("truncate", format!("truncate table {}", self.name)),
            88..90 => {
                let away = format!("{}_away", self.name);
                let sql =
                    format!("alter table {} rename to {away}; alter table {away} rename to {}", self.name, self.name);
                ("rename table and back", sql)
            }
            90..92 => {
                after = Self::new(self.kind, &self.name, random);
                ("make anew", format!("drop table {}; {}", self.name, after.create()))
            }
            92..95 => (
                "index",
                format!("create index on_{}_{} on {} (part, id)", self.name, random.below(1_000_000), self.name),
            ),
            95..97 => {
                let sql = if self.is_postgres() {
                    format!("comment on column {}.part is 'of no consequence'", self.name)
                } else {
                    with(format!("comment = '{}'", random.below(1000)))
                };
                ("comment", sql)
            }
            97..98 => {
                after.two_parts = !self.two_parts;
                let key = if after.two_parts { "id, part" } else { "id" };
                let drop = if self.is_postgres() {
                    format!("drop constraint {}_pkey", self.name)
                } else {
                    "drop primary key".to_owned()
                };
                ("another key", with(format!("{drop}, add primary key ({key})")))
            }
            98..100 if !self.is_postgres() => {
                let place = if random.chance(50) { "first".to_owned() } else { "after id".to_owned() };
                ("move", with(format!("modify {} {place}", definition(random.pick(&self.columns)))))
            }
            _ => return None,
        };
        Some(Change { what, sql, after })
    }

    fn redefine(&self, column: &Column, by_cast: bool) -> String {
        let Column { name, ty, .. } = column;
        if !self.is_postgres() {
            return format!("modify {}", definition(column));
        }
        let using = if by_cast { format!(" using {name}::{}", ty.sql) } else { String::new() };
        format!("alter column {name} type {}{using}", ty.sql)
    }

    fn change_nullability(&self, column: &Column, random: &mut Random) -> String {
        let Column { name, ty, nullable } = column;
        let change = match (self.is_postgres(), nullable) {
            (true, true) => format!("alter column {name} drop not null"),
            (true, false) => format!("alter column {name} set not null"),
            (false, _) => format!("modify {}", definition(column)),
        };
        let alter = format!("alter table {} {change}", self.name);
        if *nullable {
            return alter;
        }
        let value = ty.literal(self.kind, random);
        format!("update {} set {name} = {value} where {name} is null; {alter}", self.name)
    }
}

fn definition(column: &Column) -> String {
    let null = if column.nullable { "null" } else { "not null" };
    format!("{} {} {null}", column.name, column.ty.sql)
}

fn range(random: &mut Random) -> String {
    let from = random.below(IDS);
    format!("{from} and {}", from + random.below(15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_comes_up() {
        for (kind, expected) in [(Kind::Postgres, 15), (Kind::MySql, 16)] {
            let mut random = Random::new(1);
            let mut table = Table { calm: false, ..Table::new(kind, "m0", &mut random) };
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..3000 {
                let change = table.change(&mut random);
                seen.insert(change.what);
                assert!(!change.after.columns.is_empty() && change.after.columns.len() <= MOST_COLUMNS + 2);
                let names: std::collections::BTreeSet<&str> =
                    change.after.columns.iter().map(|column| column.name.as_str()).collect();
                assert_eq!(names.len(), change.after.columns.len(), "{}", change.sql);
                table = Table { calm: false, ..change.after };
            }
            assert_eq!(seen.len(), expected, "{seen:?}");
        }
    }
}
