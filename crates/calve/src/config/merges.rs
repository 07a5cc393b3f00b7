//! Tables that become one in the lake: what an entry of `tables` says of that.

use std::sync::Arc;

use calve_core::TableName;

use super::pattern::TablePattern;
use super::raw::TableEntry;
use super::reader::Reader;
use super::settings::TableSelection;

/// What the column that says where rows come from is called, where the entry does not say.
const ORIGIN: &str = "origin";

/// What an entry's tables are merged into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MergeInto {
    pub(super) table: TableName,
    origin: String,
}

/// Of a table what its rows have in the column of the origin; None where it is none that is merged.
type OriginOf = Box<dyn Fn(&TableName) -> Option<String> + Send + Sync>;

/// A merge of a pipeline.
pub(crate) struct Merging {
    pub(crate) table: TableName,
    pub(crate) origin: String,
    /// As it was written.
    pub(crate) pattern: String,
    pub(crate) origin_of: OriginOf,
}

/// What the entry says.
pub(super) fn of_entry(reader: &mut Reader<'_>, entry: &TableEntry, pattern: &TablePattern) -> Option<MergeInto> {
    let Some(given) = &entry.merge else {
        if let Some(origin) = &entry.origin {
            reader.refuse("origin", origin, "only tables that are merged have an origin; add merge, or leave it out");
        }
        return None;
    };
    if pattern.exact().is_some() {
        reader.refuse(
            "merge",
            given,
            &format!("'{pattern}' is one table; give it another name with 'as', or write a pattern"),
        );
        return None;
    }
    if let Some(target) = &entry.target {
        reader.refuse("as", target, "the table has its name in the lake by 'merge'; leave 'as' out");
    }
    let origin = match &entry.origin {
        None => ORIGIN.to_owned(),
        Some(origin) if origin.text.trim().is_empty() => {
            reader.refuse("origin", origin, "is empty; name the column that says where rows come from");
            return None;
        }
        Some(origin) => origin.text.clone(),
    };
    let table = given.text.parse().map_err(|error: calve_core::ParseTableNameError| {
        reader.refuse("merge", given, &error.to_string().replace("schema.table", "namespace.table"));
    });
    Some(MergeInto { table: table.ok()?, origin })
}

/// Refuses entries that cannot stand side by side.
pub(super) fn check(reader: &mut Reader<'_>, selection: &TableSelection) {
    let merging = selection.include.iter().filter_map(|selected| Some((&selected.pattern, selected.merge.as_ref()?)));
    let all: Vec<_> = merging.collect();
    for (at, (pattern, merge)) in all.iter().enumerate() {
        let first = all.iter().take(at).find(|(_, other)| other.table == merge.table);
        if let Some((other, _)) = first.filter(|(other, other_merge)| other != pattern || *other_merge != *merge) {
            reader.missing(format!(
                "tables: both '{other}' and '{pattern}' are merged into {}; write one pattern, and leave tables out with 'exclude'",
                merge.table
            ));
        }
    }
}

impl TableSelection {
    /// Every merge.
    pub(crate) fn merges(&self) -> Vec<Merging> {
        let mut merges: Vec<Merging> = Vec::new();
        for selected in &self.include {
            let Some(MergeInto { table, origin }) = selected.merge.clone() else { continue };
            if merges.iter().any(|merge| merge.table == table) {
                continue;
            }
            let (pattern, exclude) = (selected.pattern.clone(), Arc::<[TablePattern]>::from(self.exclude.as_slice()));
            merges.push(Merging {
                table,
                origin,
                pattern: selected.pattern.to_string(),
                origin_of: Box::new(move |table| {
                    let is_member = pattern.matches(table) && !exclude.iter().any(|pattern| pattern.matches(table));
                    is_member.then(|| origin_of(&pattern, table))
                }),
            });
        }
        merges
    }

    /// What the table is merged into.
    pub(super) fn merged(&self, table: &TableName) -> Option<&TableName> {
        if self.exclude.iter().any(|pattern| pattern.matches(table)) {
            return None;
        }
        let merging = self.include.iter().find(|selected| selected.merge.is_some() && selected.pattern.matches(table));
        merging.and_then(|selected| selected.merge.as_ref()).map(|merge| &merge.table)
    }

    /// Why a table cannot be a member: other entries are for it too.
    pub(super) fn overlap(&self, table: &TableName) -> Option<String> {
        let naming = |merges: bool| {
            let mut all = self.include.iter().filter(|selected| !selected.only_says_how);
            all.find(|selected| selected.merge.is_some() == merges && selected.pattern.matches(table))
        };
        let into = self.merged(table)?;
        let merged = |(_, other): &(&TablePattern, &TableName)| *other != into;
        let merging = self.include.iter().filter(|selected| selected.pattern.matches(table));
        let mut merging = merging.filter_map(|selected| Some((&selected.pattern, &selected.merge.as_ref()?.table)));
        let what = match (naming(false), merging.find(merged)) {
            (_, Some((_, other))) => format!("merged into {other}"),
            (Some(selected), None) if naming(true).is_some() => format!("a table of its own by '{}'", selected.pattern),
            _ => return None,
        };
        Some(format!(
            "{table} would be merged into {into}, and be {what}; narrow one of the patterns, or leave tables out with 'exclude'"
        ))
    }
}

/// The parts of the name that the pattern leaves open.
fn origin_of(pattern: &TablePattern, table: &TableName) -> String {
    match pattern.leaves_open() {
        (true, false) => table.schema.clone(),
        (false, true) => table.name.clone(),
        _ => format!("{}.{}", part(&table.schema), part(&table.name)),
    }
}

/// A part of a dotted name, in quotes where it could be taken for two.
fn part(name: &str) -> String {
    if name.contains(['.', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use calve_core::TableName;

    use crate::config::problem::Problems;
    use crate::config::raw::Raw;
    use crate::config::{Settings, yaml};

    fn read(tables: &str) -> (Settings, Vec<String>) {
        let (settings, problems) = read_from("mysql://u@h/d", tables);
        let recorded = Raw::from_record(&settings.raw.to_record());
        let mut again = Problems::default();
        let recorded = Settings::read(recorded, None, &mut again);
        assert_eq!(format!("{:?}", recorded.tables.merges_shown()), format!("{:?}", settings.tables.merges_shown()));
        (settings, problems)
    }

    fn read_from(source: &str, tables: &str) -> (Settings, Vec<String>) {
        let mut problems = Problems::default();
        let text = format!("source: {source}\ninto: l\nname: n\n{tables}");
        let raw = Raw::from_yaml(yaml::parse(&text).unwrap(), &|_| None, &mut problems);
        let settings = Settings::read(raw, Some(Path::new("/etc/c.yaml")), &mut problems);
        (settings, problems.lines())
    }

    impl super::TableSelection {
        fn merges_shown(&self) -> Vec<(String, String, String)> {
            self.merges().into_iter().map(|m| (m.table.to_string(), m.origin, m.pattern)).collect()
        }
    }

    fn table(text: &str) -> TableName {
        text.parse().unwrap()
    }

    const MERGED: &str = "
exclude: [shop_9.*]
tables:
  - name: shop_*.orders
    merge: shop.orders
    origin: shard
    on_unrepresentable: clamp
  - {name: logs.events_*, merge: logs.events}
  - {name: 'all_*.x_*', merge: all.x}
  - other.*
";

    #[test]
    fn tables_that_match_become_one() {
        let (settings, problems) = read(MERGED);
        assert_eq!(problems, Vec::<String>::new());
        let tables = &settings.tables;
        let names =
            ["shop_1.orders", "shop_9.orders", "shop_1.users", "logs.events_1", "all_1.x_a", "other.t", "shop.orders"];
        let all: Vec<TableName> = names.iter().map(|name| table(name)).collect();
        let (targets, wrong) = tables.resolve(&all[..6], &[]);
        assert_eq!(wrong, Vec::<String>::new());
        let targets: Vec<String> = targets.iter().map(|(from, to)| format!("{from} {to}")).collect();
        assert_eq!(targets, ["all.x all.x", "logs.events logs.events", "other.t other.t", "shop.orders shop.orders"]);
        let merges = tables.merges();
        let origins = |at: usize, name: &str| (merges[at].origin_of)(&table(name));
        for (at, name, origin) in [
            (0, "shop_1.orders", Some("shop_1")),
            (0, "shop_9.orders", None),
            (0, "shop.orders", None),
            (1, "logs.events_1", Some("events_1")),
            (2, "all_1.x_a", Some("all_1.x_a")),
            (2, r#""all_1.b".x_a"#, Some(r#""all_1.b".x_a"#)),
            (2, r#"all_1."x_b.a""#, Some(r#"all_1."x_b.a""#)),
        ] {
            assert_eq!(origins(at, name).as_deref(), origin, "{name}");
        }
        assert_eq!(merges.iter().map(|merge| merge.origin.as_str()).collect::<Vec<_>>(), ["shard", "origin", "origin"]);
        // One and the same rules for the table and its members.
        let clamps =
            |name: &str| tables.rules().table(&table(name)).on_unrepresentable == calve_core::OnUnrepresentable::Clamp;
        assert!(clamps("shop.orders") && clamps("shop_1.orders") && !clamps("other.t"));
        // Under its own name it goes on when its members are gone, and is chosen.
        let (targets, wrong) =
            tables.resolve(&[table("logs.events_1"), table("all_1.x_1"), table("other.t")], &[table("shop.orders")]);
        assert!(wrong.is_empty() && targets.contains_key(&table("shop.orders")), "{wrong:?}");
        assert_eq!(tables.target(&table("shop.orders")), Some(table("shop.orders")));
        assert_eq!(tables.target(&table("shop_1.orders")), None);
    }

    #[test]
    fn what_cannot_be_merged_is_said() {
        for (tables, source, says) in [
            ("tables: [{name: a.b, merge: c.d}]", "mysql://u@h/d", "'a.b' is one table"),
            ("tables: [{name: a.*, merge: d}]", "mysql://u@h/d", "merge: 'd' does not name a table"),
            ("tables: [{name: a.*, merge: c.d, as: c.e}]", "mysql://u@h/d", "leave 'as' out"),
            ("tables: [{name: a.*, origin: x}]", "mysql://u@h/d", "only tables that are merged have an origin"),
            ("tables: [{name: a.*, merge: c.d}, {name: b.*, merge: c.d}]", "mysql://u@h/d", "both 'a.*' and 'b.*'"),
            ("tables: [{name: a.*, merge: c.d}]", "postgres://u@h/d", "only sources of MySQL and MariaDB"),
        ] {
            let problems = read_from(source, tables).1;
            assert!(problems.len() == 1 && problems[0].contains(says), "{tables}: {problems:?}");
        }
        let (settings, problems) = read("tables: [{name: s_*.t, merge: s.t}, s_1.*, {name: 's_2.t*', merge: s.u}]");
        assert_eq!(problems, Vec::<String>::new());
        let (_, wrong) = settings.tables.resolve(&[table("s_1.t"), table("s_2.t"), table("s_3.t")], &[]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("s_1.t would be merged into s.t, and be a table of its own by 's_1.*'"), "{wrong:?}");
        assert!(wrong[1].contains("s_2.t would be merged into s.t, and be merged into s.u"), "{wrong:?}");
        // A table has the name already.
        let (settings, _) = read("tables: [{name: s_*.t, merge: s.t}, s.*]");
        let (_, wrong) = settings.tables.resolve(&[table("s.t"), table("s_1.t")], &[]);
        assert!(wrong.len() == 1 && wrong[0].contains("both be s.t"), "{wrong:?}");
        // None is there.
        let (_, wrong) = settings.tables.resolve(&[table("s.u")], &[]);
        assert!(wrong.len() == 1 && wrong[0].contains("no table of the source matches 's_*.t'"), "{wrong:?}");
    }
}
