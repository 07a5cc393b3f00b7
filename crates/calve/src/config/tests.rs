use std::path::Path;
use std::time::Duration;

use calve_core::TableName;

use super::option::OPTIONS;
use super::problem::Problems;
use super::raw::Raw;
use super::settings::Compression;
use super::{Catalog, Settings, yaml};

const FULL: &str = r"
name: shop
source:
  host: db.example
  port: 5433
  database: Shop
  user: ann
  password: ${SECRET}
  sslmode: require
slot: its_slot
publication: its publication
manage_publication: false
tables:
  - public.*
  - name: crm.customers
    as: sales.clients
exclude: [public.audit_*]
into: lake
catalog: postgres://cat:${SECRET}@db/catalog
warehouse: /data/warehouse
namespace: raw
checkpoint: { interval: 5s, rows: 1_000, bytes: 64MiB, idle_interval: 20s }
parallelism: { commit: 3, load: 4 }
files: { compression: snappy, target_size: 256MB }
expiry: { age: 7d, min_snapshots: 10, max_snapshots: 50 }
log: { level: debug, format: json }
";

fn variable(name: &str) -> Option<String> {
    (name == "SECRET").then(|| "hunter2".to_owned())
}

fn read(yaml: &str, flags: Raw) -> (Settings, Vec<String>) {
    let mut problems = Problems::default();
    let file = Raw::from_yaml(yaml::parse(yaml).unwrap(), &variable, &mut problems);
    let settings = Settings::read(flags.over(&file), Some(Path::new("/etc/calve/calve.yaml")), &mut problems);
    (settings, problems.lines())
}

fn table(text: &str) -> TableName {
    text.parse().unwrap()
}

#[test]
fn a_file_sets_every_option() {
    let (settings, problems) = read(FULL, Raw::default());
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(settings.pipeline, "shop");
    let source = settings.source().unwrap();
    assert_eq!((source.user(), source.database()), ("ann", Some("Shop")));
    assert_eq!(source.to_string(), "postgres://ann@db.example:5433/Shop");
    assert_eq!((settings.slot.as_str(), settings.publication.as_str()), ("its_slot", "its publication"));
    assert!(!settings.manage_publication);
    assert_eq!(settings.into, Path::new("/etc/calve/lake"));
    assert_eq!(settings.warehouse, Path::new("/data/warehouse"));
    let Catalog::Postgres(url) = &settings.catalog else { panic!("{:?}", settings.catalog) };
    assert_eq!(url.reveal(), "postgres://cat:hunter2@db/catalog");
    assert_eq!(settings.checkpoint.interval, Duration::from_secs(5));
    assert_eq!((settings.checkpoint.rows, settings.checkpoint.bytes), (1_000, 64 << 20));
    assert_eq!(settings.files.compression, Compression::Snappy);
    assert_eq!((settings.expiry.min_snapshots, settings.expiry.max_snapshots), (10, 50));
    assert_eq!((settings.commit_parallelism, settings.load_parallelism), (3, 4));
}

#[test]
fn no_option_is_without_a_reader() {
    let read = Settings::options_read();
    for option in OPTIONS {
        assert!(read.contains(option.key), "nothing reads '{}'", option.key);
    }
}

#[test]
fn tables_are_selected_renamed_and_left_out() {
    let (settings, _) = read(FULL, Raw::default());
    let target = |name| settings.tables.target(&table(name));
    assert_eq!(target("public.orders"), Some(table("raw.orders")));
    assert_eq!(target("crm.customers"), Some(table("sales.clients")));
    assert_eq!(target("public.audit_2026"), None);
    assert_eq!(target("crm.other"), None);
}

#[test]
fn a_selection_is_checked_against_the_tables_there_are() {
    let (settings, _) = read("into: l\nname: n\ntables: [a.*, b.x, b.gone]\nnamespace: raw\n", Raw::default());
    let (_, wrong) = settings.tables.resolve(&["a.x", "b.x", "b.gonne"].map(table), &[]);
    let error = wrong.join("; ");
    assert!(error.contains("table b.gone does not exist in the source; did you mean b.gonne?"), "{error}");
    assert!(error.contains("a.x and b.x would both become raw.x"), "{error}");

    let (resolved, wrong) = settings.tables.resolve(&["a.y", "b.x", "b.gone", "c.z"].map(table), &[]);
    assert_eq!(wrong, Vec::<String>::new());
    let resolved: Vec<_> = resolved.iter().map(|(a, b)| format!("{a} -> {b}")).collect();
    assert_eq!(resolved, ["a.y -> raw.y", "b.gone -> raw.gone", "b.x -> raw.x"]);

    let (settings, _) = read("into: l\nname: n\ntables: [a.*]\nexclude: [a.*]\n", Raw::default());
    assert!(settings.tables.resolve(&[table("a.x")], &[]).1[0].contains("excluded"));
}

#[test]
fn defaults_follow_from_the_database() {
    let (settings, problems) = read("source: postgres://u@h/My-Shop\ninto: lake\n", Raw::default());
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!((settings.pipeline.as_str(), settings.slot.as_str()), ("my_shop", "calve_my_shop"));
    assert_eq!(settings.publication, "calve_my_shop");
    assert!(matches!(&settings.catalog, Catalog::Sqlite(path) if path == Path::new("/etc/calve/lake/catalog.db")));
}

#[test]
fn all_problems_are_found_at_once_with_their_lines() {
    let yaml = "\
souce: postgres://u@h/db
into: lake
tables:
  - orders
  - name: public.*
    as: one
  - nam: x
checkpoint:
  interval: 10
  rows: many
  byte: 1
files: fast
interval: 5s
exclude: ${MISSING}
expiry: {min_snapshots: 200, max_snapshots: 100}
manage_publication: maybe
schema_changes: {otherwise: apply, add_column: aply, drop_partition: apply, rename_column: never}
";
    let (_, problems) = read(yaml, Raw::default());
    for (line, part) in [
        (1, "did you mean 'source'?"),
        (4, "did you mean public.orders?"),
        (6, "many tables may match 'public.*'"),
        (7, "did you mean 'name'?"),
        (9, "checkpoint.interval: '10' is not a duration"),
        (10, "checkpoint.rows: 'many' is not a whole number"),
        (11, "did you mean 'bytes'?"),
        (12, "'files' takes options of its own: compression, target_size"),
        (13, "did you mean 'checkpoint.interval'?"),
        (14, "MISSING is not set"),
        (15, "less than expiry.min_snapshots"),
        (16, "neither true nor false"),
        (17, "schema_changes.otherwise: rows that are in the lake cannot follow these changes; use stop, or reload"),
        (17, "schema_changes.add_column: 'aply' is no policy; did you mean 'apply'?"),
        (
            17,
            "schema_changes.drop_partition: the log does not say which rows were in a partition; use stop, reload, or ignore",
        ),
        (17, "schema_changes.rename_column: 'never' is no policy; use apply, reload or stop"),
    ] {
        let start = format!("calve.yaml:{line}: ");
        let found = problems.iter().any(|problem| problem.starts_with(&start) && problem.contains(part));
        assert!(found, "line {line}, '{part}' is not among\n{}", problems.join("\n"));
    }
    assert!(problems.iter().any(|problem| problem.contains("no source was given")), "{problems:?}");
}

#[test]
fn flags_win_over_the_file_and_are_named_in_problems() {
    let mut flags = Raw::default();
    flags.set_flag("source", "--source", Some("postgres://bob@other/db".to_owned()));
    flags.set_flag("checkpoint.interval", "--checkpoint-interval", Some("soon".to_owned()));
    flags.set_flag("into", "--into", Some("here".to_owned()));
    flags.set_table_flags("tables", "--table", vec!["x.y".to_owned()]);
    let (settings, problems) = read(FULL, flags);
    assert_eq!(settings.source().unwrap().to_string(), "postgres://bob@other:5432/db");
    assert_eq!(settings.into, Path::new("here"));
    assert_eq!(settings.tables.target(&table("x.y")), Some(table("raw.y")));
    assert_eq!(settings.tables.target(&table("public.orders")), None);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("--checkpoint-interval: 'soon' is not a duration"), "{problems:?}");
}

#[test]
fn what_is_remembered_is_read_back_without_passwords() {
    let (settings, _) = read(FULL, Raw::default());
    let record = settings.raw.to_record();
    assert!(!record.to_string().contains("hunter2"), "{record}");
    let mut problems = Problems::default();
    let again = Settings::read(Raw::from_record(&record), None, &mut problems);
    assert_eq!(problems.lines(), Vec::<String>::new());
    assert_eq!(again.pipeline, "shop");
    assert_eq!(again.source().unwrap().to_string(), "postgres://ann@db.example:5433/Shop");
    assert_eq!(again.tables.target(&table("crm.customers")), Some(table("sales.clients")));
    assert_eq!(again.checkpoint.rows, 1_000);

    let (settings, _) = read("source: postgres://u:hunter2@h/db?sslmode=require\ninto: l\n", Raw::default());
    let record = settings.raw.to_record();
    assert_eq!(record["source"], "postgres://u@h/db?sslmode=require");
    // A password may be added to what was remembered.
    let mut flags = Raw::default();
    flags.set_flag("source.password", "source.password", Some("hunter2".to_owned()));
    let merged = flags.over(&Raw::from_record(&record));
    let mut problems = Problems::default();
    assert_eq!(Settings::read(merged, None, &mut problems).source().unwrap().to_string(), "postgres://u@h:5432/db");
    assert_eq!(problems.lines(), Vec::<String>::new());
}

#[test]
fn secrets_are_in_no_problem_and_no_debug_output() {
    for yaml in [
        "source: mssql://u:hunter2@h/db\ninto: l\nname: n\n",
        "source: mysql://u:hunter2@h/db?nonsense=1\ninto: l\nname: n\n",
        "source: u:hunter2@h/db\ninto: l\nname: n\n",
        "source: postgres://u:hunter2@h/db?nonsense=1\ninto: l\nname: n\n",
        "catalog: hunter2\ninto: l\nname: n\n",
        "source: {password: hunter2, port: x, user: u, host: h}\ninto: l\nname: n\n",
    ] {
        let (settings, problems) = read(yaml, Raw::default());
        assert_eq!(problems.len(), 1, "{yaml}: {problems:?}");
        assert!(!problems[0].contains("hunter2"), "{problems:?}");
        assert!(!format!("{settings:?}").contains("hunter2"), "{settings:?}");
    }
    let (settings, _) = read(FULL, Raw::default());
    assert!(!format!("{settings:?}").contains("hunter2"), "{settings:?}");
}

#[test]
fn rules_for_values_are_those_of_the_first_entry_that_matches() {
    use calve_core::OnUnrepresentable::{Clamp, Error, Null};
    let yaml = "source: postgres://u@h/d
into: lake
on_unrepresentable: null
tables:
  - {name: public.strict, on_unrepresentable: error, columns: {At: {on_unrepresentable: clamp, type: 'decimal(9, 2)'}}}
  - {name: 'public.a*', on_unrepresentable: clamp}
  - public.*
";
    let policies = |settings: &Settings| {
        let rules = settings.tables.rules();
        ["strict", "again", "other"].map(|name| {
            let rules = rules.table(&TableName::new("public", name));
            let ty = rules.column_type("At").map(ToString::to_string).unwrap_or_default();
            (rules.policy("At", false), rules.policy("at", false), rules.policy("At", true), rules.of_this_table, ty)
        })
    };
    let expected = [
        (Clamp, Error, Error, true, "decimal(9,2)".to_owned()),
        (Clamp, Clamp, Error, false, String::new()),
        (Null, Null, Error, false, String::new()),
    ];
    let (settings, problems) = read(yaml, Raw::default());
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(policies(&settings), expected);
    // What is remembered says the same.
    let mut problems = Problems::default();
    let again = Settings::read(Raw::from_record(&settings.raw.to_record()), None, &mut problems);
    assert_eq!((problems.lines(), policies(&again)), (Vec::new(), expected.clone()));
    // Tables that flags name keep the rules that the file has for them.
    let mut flags = Raw::default();
    flags.set_table_flags("tables", "--table", vec!["public.strict".to_owned(), "public.again".to_owned()]);
    let (settings, problems) = read(yaml, flags);
    assert_eq!((problems, policies(&settings)[..2].to_vec()), (Vec::new(), expected[..2].to_vec()));
    assert_eq!(settings.tables.target(&table("public.other")), None);
    // So they do where a flag has a pattern, and once that is remembered; the file's entries name no table then.
    let mut flags = Raw::default();
    flags.set_table_flags("tables", "--table", vec!["public.*".to_owned()]);
    let (settings, problems) =
        read(&yaml.replace("  - public.*\n", "  - {name: far.away, exclude_columns: [x]}\n"), flags);
    assert_eq!((problems, policies(&settings)), (Vec::new(), expected.clone()));
    let mut problems = Problems::default();
    let again = Settings::read(Raw::from_record(&settings.raw.to_record()), None, &mut problems);
    assert_eq!((problems.lines(), policies(&again)), (Vec::new(), expected));
    for settings in [&settings, &again] {
        assert_eq!(settings.tables.target(&table("far.away")), None);
        assert_eq!(settings.tables.target(&table("public.strict")), Some(table("public.strict")));
        assert_eq!(settings.tables.named(), Vec::new());
    }
    let (_, problems) = read(&yaml.replace("columns: {At", "exclude_columns: [], columns: {At"), Raw::default());
    assert!(problems.iter().any(|problem| problem.contains("lists no column")), "{problems:?}");
}
