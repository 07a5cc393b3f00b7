//! What the configuration says of how tables lie in the lake: partitions, order, files.

use std::sync::Arc;

use calve_core::{BloomFilters, Layout, PartitionBy, SortBy};

use super::raw::{Given, TableEntry};
use super::reader::Reader;
use super::settings::{Files, at_least_a_mebibyte, compression};

/// What an entry of `tables` says; `all` is what is said for all tables.
pub(super) fn of_entry(reader: &mut Reader<'_>, entry: &TableEntry, all: &Files) -> (Arc<Layout>, Files) {
    let mut of = Entry { reader, entry };
    let layout = Layout {
        partition: of.value("partition", PartitionBy::parse_list).unwrap_or_default(),
        sort: of.value("sort", SortBy::parse_list).unwrap_or_default(),
        bloom_filters: of
            .value("files.bloom_filters", BloomFilters::parse)
            .unwrap_or_else(|| all.bloom_filters.clone()),
    };
    let files = Files {
        compression: of.value("files.compression", compression).unwrap_or(all.compression),
        target_size: of.value("files.target_size", at_least_a_mebibyte).unwrap_or(all.target_size),
        bloom_filters: layout.bloom_filters.clone(),
    };
    (Arc::new(layout), files)
}

/// Bloom filters of all tables: no column is one of every table's.
pub(super) fn bloom_filters(text: &str) -> Result<BloomFilters, String> {
    match BloomFilters::parse(text)? {
        BloomFilters::Columns(_) => Err(format!("'{text}' is not what all tables can have; use key, or none")),
        filters => Ok(filters),
    }
}

struct Entry<'a, 'r> {
    reader: &'a mut Reader<'r>,
    entry: &'a TableEntry,
}

impl Entry<'_, '_> {
    fn value<T>(&mut self, key: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let given: &Given = self.entry.layout.get(key)?;
        parse(&given.text).map_err(|what| self.reader.refuse(key, given, &what)).ok()
    }
}

#[cfg(test)]
mod tests {
    use calve_core::TableName;

    use crate::config::problem::Problems;
    use crate::config::raw::Raw;
    use crate::config::settings::Compression;
    use crate::config::{Settings, yaml};

    fn read(raw: Raw) -> (Settings, Vec<String>) {
        let mut problems = Problems::default();
        let settings = Settings::read(raw, None, &mut problems);
        (settings, problems.lines())
    }

    fn parse(yaml: &str) -> (Raw, Vec<String>) {
        let mut problems = Problems::default();
        let raw = Raw::from_yaml(yaml::parse(yaml).unwrap(), &|_| None, &mut problems);
        (raw, problems.lines())
    }

    const TABLES: &str = "
into: l
name: n
files: {compression: snappy, bloom_filters: key}
tables:
  - public.plain
  - name: public.orders
    partition: [day(created_at), bucket(16, id), region]
    sort: [customer, created_at desc]
    files: {target_size: 64MiB, bloom_filters: [id, customer]}
  - name: public.*
    partition: truncate(10, name)
    files: {compression: zstd, bloom_filters: none}
";

    #[test]
    fn tables_are_laid_out_as_their_entry_says() {
        let (raw, problems) = parse(TABLES);
        assert_eq!(problems, Vec::<String>::new());
        let recorded = Raw::from_record(&raw.to_record());
        for raw in [raw, recorded] {
            let (settings, problems) = read(raw);
            assert_eq!(problems, Vec::<String>::new());
            let shown = |table: &str| {
                let (layout, files) = settings.tables.layout(&TableName::new("public", table), &settings.files);
                let partition: Vec<_> = layout.partition.iter().map(ToString::to_string).collect();
                let sort: Vec<_> = layout.sort.iter().map(ToString::to_string).collect();
                let filters = format!("{:?}", layout.bloom_filters);
                (partition.join("; "), sort.join("; "), filters, files.compression, files.target_size)
            };
            let (snappy, default) = (Compression::Snappy, 128 << 20);
            assert_eq!(shown("plain"), (String::new(), String::new(), "Key".to_owned(), snappy, default));
            assert_eq!(
                shown("orders"),
                (
                    "day(created_at); bucket(16, id); region".to_owned(),
                    "customer; created_at desc".to_owned(),
                    r#"Columns(["id", "customer"])"#.to_owned(),
                    snappy,
                    64 << 20
                )
            );
            assert_eq!(
                shown("other"),
                ("truncate(10, name)".to_owned(), String::new(), "None".to_owned(), Compression::Zstd, default)
            );
        }
    }

    #[test]
    fn what_is_no_layout_is_said_with_its_line() {
        let (raw, mut problems) = parse(
            "
into: l
name: n
files: {bloom_filters: id}
tables:
  - name: public.a
    partition: [days(at)]
    sort: [a up]
    files: {target_size: 1, compresion: zstd}
  - name: public.b
    files: zstd
    partition: [[a]]
",
        );
        problems.extend(read(raw).1);
        for (line, says) in [
            (4, "files.bloom_filters: 'id' is not what all tables can have"),
            (7, "partition: 'days' in 'days(at)' is no transform"),
            (8, "sort: 'a up' is no order"),
            (9, "files.target_size: '1' is less than 1MiB"),
            (9, "did you mean 'compression'?"),
            (11, "'files' takes fields: compression, target_size, bloom_filters"),
            (12, "an entry of 'partition' is one text"),
        ] {
            let found =
                problems.iter().any(|problem| problem.contains(&format!(":{line}: ")) && problem.contains(says));
            assert!(found, "{line} {says}: {problems:?}");
        }
        assert_eq!(problems.len(), 7, "{problems:?}");
    }
}
