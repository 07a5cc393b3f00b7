//! What the captures must give.

use std::collections::BTreeSet;

use calve_core::GtidSource;

use super::model::Model;
use super::{Capture, capture, captures, file, shown};
use crate::binlog::Flavour;
use crate::binlog::event::{Event, StatementPart, Xid, kind};
use crate::binlog::gtid::MariaXa;

fn read(capture: &Capture, unwanted: bool) -> Model {
    let mut model = Model::new(capture.flavour, &capture.tables);
    model.unwanted = unwanted;
    file::events(capture.flavour, &capture.log, |_, event| model.event(event))
        .unwrap_or_else(|error| panic!("{}: {error}", capture.name));
    model
}

/// Whether every row of the capture can be read.
fn is_whole(capture: &Capture) -> bool {
    !["unfit", "not_full", "lost_labels", "generated"].iter().any(|name| capture.name.ends_with(name))
}

/// Rows that only one side has, as lines.
fn differences(capture: &Capture) -> Vec<String> {
    let model = read(capture, false);
    let mut found = Vec::new();
    for (table, why) in &model.stops {
        found.push(format!("{}: {table} stopped: {why}", capture.name));
    }
    for ((name, rows), table) in model.fold().into_iter().zip(&capture.tables) {
        let columns = &table.schema.columns;
        let normal = |row: &Vec<Option<String>>| -> Vec<Option<String>> {
            columns.iter().zip(row).map(|(column, cell)| shown::normal(column, cell.as_deref())).collect()
        };
        let decoded: BTreeSet<Vec<Option<String>>> = rows.into_iter().collect();
        let selected: BTreeSet<Vec<Option<String>>> = table.rows.iter().map(normal).collect();
        for row in decoded.symmetric_difference(&selected) {
            let side = if decoded.contains(row) { "decoded" } else { "selected" };
            let cells: Vec<String> =
                columns.iter().zip(row).map(|(column, cell)| format!("{}={cell:?}", column.name)).collect();
            found.push(format!("{}: {name}: {side} {}", capture.name, cells.join(" ")));
        }
    }
    found
}

#[test]
fn rows_decoded_from_the_log_are_those_that_select_shows() {
    let captures = captures();
    let rows: usize = captures.iter().flat_map(|capture| &capture.tables).map(|table| table.rows.len()).sum();
    assert!(captures.len() >= 40 && rows > 1000, "{} captures of {rows} rows", captures.len());
    let found: Vec<String> = captures.iter().filter(|capture| is_whole(capture)).flat_map(differences).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Rows that nobody wants are walked over to the end of their event, and stop nothing.
#[test]
fn unwanted_rows_are_walked_over() {
    for capture in captures() {
        let model = read(&capture, true);
        // Only table maps may say something: they come before anybody is asked.
        let rows: Vec<_> = model.stops.iter().filter(|(_, why)| why.contains("calve reload")).collect();
        assert!(rows.is_empty(), "{}: {rows:?}", capture.name);
        assert!(model.fold().into_iter().all(|(_, rows)| rows.is_empty()));
    }
}

#[test]
fn what_does_not_fit_stops_its_table() {
    // Altered tables are described as they are in the end, and rows of before do not fit any more.
    let expected = [
        ("altered", "column v is signed in the log and unsigned in the schema"),
        ("finer", "column v has type 18 with modifier 3 in the log"),
        ("grown", "column w is not in the log"),
        ("invalid_date", "column d of the row with id = 1 holds a date that is in no calendar"),
        ("long_time", "column t of the row with id = 1 holds a TIME of 24:00:00 or more"),
        ("longer", "column v has type 15 with modifier 80 in the log"),
        ("negative_time", "column t of the row with id = 2 holds a negative TIME"),
        ("nullable", "column v may be NULL in the log and not in the schema"),
        ("other_charset", "column v has character set latin1 in the log and utf8mb4 in the schema"),
        ("other_key", "the primary key is (id) in the log and (v) in the schema"),
        ("relabelled", "the labels of column e in the log are not those of enum('b','a') in the schema"),
        ("renamed", "column w is not in the log"),
        ("scaled", "column v has type 246 with modifier 2562 in the log"),
        ("zero_key", "column d of the row with d = '?' holds a zero date, which no key can have"),
    ];
    for server in ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"] {
        let model = read(&capture(&format!("{server}/unfit")), false);
        for (table, what) in expected {
            let why: Vec<&str> = model.stops.iter().filter(|(t, _)| t == table).map(|(_, why)| &**why).collect();
            assert!(why.iter().any(|why| why.contains(what)), "{server}: {table}: {why:?}");
        }
        let others: Vec<_> = model.stops.iter().filter(|(t, _)| !expected.iter().any(|(e, _)| e == t)).collect();
        assert!(others.is_empty(), "{server}: {others:?}");
        // Rows before the one at fault were appended, the failed one was taken back.
        let rows = model.fold();
        let rows = |table: &str| rows.iter().find(|(name, _)| name == table).unwrap().1.len();
        assert_eq!((rows("negative_time"), rows("zero_key"), rows("fine")), (1, 0, 2));
    }
}

/// `?` in a label of the catalog may be a character that it cannot show: only rows that hold such a label stop.
#[test]
fn labels_that_the_catalog_cannot_show_stop_their_table() {
    for server in ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"] {
        let model = read(&capture(&format!("{server}/lost_labels")), false);
        let stopped: Vec<&str> = model.stops.iter().map(|(table, _)| &**table).collect();
        assert_eq!(stopped, ["doubtful_enum", "doubtful_set"], "{:?}", model.stops);
        assert!(model.stops.iter().all(|(_, why)| why.contains("binlog_row_metadata = FULL")), "{:?}", model.stops);
        let rows: Vec<usize> = model.fold().iter().map(|(_, rows)| rows.len()).collect();
        assert_eq!(rows, [1, 1, 2]);
    }
}

/// MySQL logs computed columns like others. MariaDB logs them of rows that come, and since 11 not of rows that change: their
/// tables can be followed without them, which takes the names of the columns in the log.
#[test]
fn computed_columns_are_followed_where_they_are_logged() {
    assert_eq!(differences(&capture("mysql-9.7/generated")), Vec::<String>::new());
    for (server, logged) in [("mariadb-10.11", true), ("mariadb-11.8", false)] {
        let mut capture = capture(&format!("{server}/generated"));
        // What system versioning adds to the key is in the log, and in no catalog.
        let found = differences(&capture);
        let of = |table: &str| found.iter().filter(|line| line.contains(table)).collect::<Vec<_>>();
        assert!(of("versioned stopped: the primary key is (id, row_end) in the log").len() >= 3, "{found:?}");
        assert_eq!(
            of("computed stopped: row image not full: a change of a row was logged without column v").len() >= 2,
            !logged
        );
        assert_eq!(
            of("stored_ stopped: row image not full: a change of a row was logged without column s").len() >= 2,
            !logged
        );
        capture.tables.retain(|table| table.schema.table.name != "versioned");
        if !logged {
            for table in &mut capture.tables {
                let mut schema = (*table.schema).clone();
                schema.columns.remove(2);
                table.schema = std::sync::Arc::new(schema);
                table.rows.iter_mut().for_each(|row| drop(row.remove(2)));
            }
        }
        assert_eq!(differences(&capture), Vec::<String>::new(), "{server}");
    }
}

#[test]
fn rows_without_all_columns_stop_their_table() {
    for server in ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"] {
        let model = read(&capture(&format!("{server}/not_full")), false);
        let stopped: Vec<&str> = model.stops.iter().map(|(table, _)| &**table).collect();
        assert_eq!(stopped, ["t", "u"], "{server}");
        assert!(model.stops.iter().all(|(_, why)| why.starts_with("row image not full")), "{:?}", model.stops);
    }
}

#[test]
fn zero_dates_become_null_and_are_counted() {
    for server in ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"] {
        let model = read(&capture(&format!("{server}/types_full")), false);
        assert_eq!(model.nulled(), [("dates", 16)], "{server}");
    }
}

#[test]
fn the_captures_hold_every_kind_of_event_that_a_server_writes() {
    let mut kinds = [BTreeSet::new(), BTreeSet::new()];
    for capture in captures() {
        let kinds = &mut kinds[usize::from(capture.flavour == Flavour::MariaDb)];
        file::events(capture.flavour, &capture.log, |header, _| {
            kinds.insert(header.kind);
            Ok(())
        })
        .unwrap();
    }
    let both = [
        kind::QUERY,
        kind::ROTATE,
        kind::INTVAR,
        kind::RAND,
        kind::USER_VAR,
        kind::APPEND_BLOCK,
        kind::FORMAT_DESCRIPTION,
        kind::XID,
        kind::BEGIN_LOAD_QUERY,
        kind::EXECUTE_LOAD_QUERY,
        kind::TABLE_MAP,
        kind::XA_PREPARE,
    ];
    let mysql = [
        kind::ROWS_QUERY,
        kind::WRITE_ROWS,
        kind::UPDATE_ROWS,
        kind::DELETE_ROWS,
        kind::GTID,
        kind::ANONYMOUS_GTID,
        kind::PREVIOUS_GTIDS,
        kind::PARTIAL_UPDATE_ROWS,
        kind::TRANSACTION_PAYLOAD,
        kind::GTID_TAGGED,
    ];
    let mariadb = [
        kind::WRITE_ROWS_V1,
        kind::UPDATE_ROWS_V1,
        kind::DELETE_ROWS_V1,
        kind::MARIA_ANNOTATE_ROWS,
        kind::MARIA_BINLOG_CHECKPOINT,
        kind::MARIA_GTID,
        kind::MARIA_GTID_LIST,
        kind::MARIA_QUERY_COMPRESSED,
        kind::MARIA_WRITE_ROWS_COMPRESSED_V1,
        kind::MARIA_UPDATE_ROWS_COMPRESSED_V1,
        kind::MARIA_DELETE_ROWS_COMPRESSED_V1,
    ];
    for (found, own) in kinds.iter().zip([&mysql[..], &mariadb]) {
        let mut expected: BTreeSet<u8> = both.iter().chain(own).copied().collect();
        // Large files are written in pieces by MySQL too, but the one loaded is small.
        expected.remove(&kind::APPEND_BLOCK);
        assert_eq!(found - &BTreeSet::from([kind::APPEND_BLOCK]), expected);
    }
}

/// Calls `each` with every event of a capture.
fn each_event(name: &str, mut each: impl FnMut(&Event<'_>)) {
    let capture = capture(name);
    file::events(capture.flavour, &capture.log, |_, event| {
        each(event);
        Ok(())
    })
    .unwrap();
}

#[test]
fn distributed_transactions_say_what_they_are() {
    let committed = Xid { format: 7, global: b"committed", branch: b"branch" };
    let one_phase = Xid { format: 1, global: b"\x00\xff", branch: b"" };
    let mut prepares = Vec::new();
    each_event("mysql-9.7/xa", |event| {
        if let Event::XaPrepare(prepare) = event {
            prepares.push((prepare.one_phase, prepare.xid == committed, prepare.xid == one_phase));
        }
    });
    assert_eq!(prepares, [(false, true, false), (true, false, true)]);
    for server in ["mariadb-10.11", "mariadb-11.8"] {
        let mut phases = Vec::new();
        each_event(&format!("{server}/xa"), |event| match event {
            Event::MariaGtid(gtid) => match gtid.xa {
                Some(MariaXa::Prepared(xid)) => phases.push(("gtid prepared", xid == committed)),
                Some(MariaXa::Completed(xid)) => phases.push(("gtid completed", xid == committed)),
                None => {}
            },
            Event::XaPrepare(prepare) => phases.push(("prepare", prepare.xid == committed && !prepare.one_phase)),
            _ => {}
        });
        assert_eq!(phases, [("gtid prepared", true), ("prepare", true), ("gtid completed", true)], "{server}");
    }
}

#[test]
fn transactions_are_named_as_they_were_executed() {
    let mut tags = Vec::new();
    let mut clocks = Vec::new();
    each_event("mysql-9.7/tags", |event| {
        if let Event::Gtid(gtid) = event {
            let (source, number) = gtid.id.clone().unwrap();
            tags.push((source.tag, number));
            clocks.push((gtid.immediate_commit_us, gtid.original_commit_us));
            assert!(gtid.transaction_length > 100);
        }
    });
    let tags: Vec<(&str, u64)> = tags.iter().map(|(tag, number)| (tag.as_str(), *number)).collect();
    let [.., (_, first), (_, _), (_, _), last] = *tags else { panic!("{tags:?}") };
    assert!(first > 1, "untagged transactions come before");
    let [.., one, second, _] = *tags else { panic!("{tags:?}") };
    assert!(one.0 == "calve_tag" && second == ("calve_tag", one.1 + 1) && last.0.is_empty(), "{tags:?}");
    // Microseconds of this century, the same on the one server there is.
    for (immediate, original) in clocks {
        assert!(immediate == original && (1_500_000_000_000_000..5_000_000_000_000_000).contains(&immediate));
    }

    let mut sets = 0;
    each_event("mysql-9.7/after_tags", |event| {
        if let Event::PreviousGtids(set) = event {
            sets += 1;
            let sources: Vec<&GtidSource> = set.sources().map(|(source, _)| source).collect();
            assert!(sources.iter().any(|source| source.tag == "calve_tag"), "{set}");
            assert!(sources.iter().any(|source| source.tag.is_empty()), "{set}");
        }
    });
    assert_eq!(sets, 1);

    each_event("mysql-9.7/anonymous", |event| match event {
        Event::Gtid(gtid) => assert!(gtid.id.is_none() && gtid.immediate_commit_us > 1_500_000_000_000_000),
        Event::PreviousGtids(set) => assert!(set.is_empty()),
        _ => {}
    });

    for server in ["mariadb-10.11", "mariadb-11.8"] {
        let mut before = None;
        let (mut listed, mut ctas) = (false, 0);
        each_event(&format!("{server}/changes"), |event| match event {
            Event::GtidList(known) => {
                listed = true;
                before = known.last().map(|(_, gtid)| gtid.sequence);
            }
            Event::MariaGtid(gtid) => {
                assert_eq!(gtid.domain, 0);
                // Domain by domain without gaps, on from where the file before ended.
                assert_eq!(Some(gtid.gtid.sequence), before.map(|number| number + 1));
                // CREATE TABLE .. SELECT is the one DDL that is a transaction of rows as well.
                ctas += usize::from(gtid.ddl && !gtid.standalone);
                before = Some(gtid.gtid.sequence);
            }
            _ => {}
        });
        assert!(listed && before.is_some() && ctas == 1);
    }
}

#[test]
fn statements_come_with_their_session() {
    for server in ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"] {
        let mut parts = BTreeSet::new();
        let mut seen = 0;
        each_event(&format!("{server}/statements"), |event| match event {
            Event::Query(query) if query.sql.as_ref() == b"CREATE TABLE \"quoted\" (id INT PRIMARY KEY)" => {
                seen += 1;
                assert_eq!((query.database, query.error), ("cap", 0));
                // ANSI_QUOTES is bit 2; latin1_swedish_ci is collation 8.
                assert_eq!((query.sql_mode.unwrap() & 4, query.charset_client), (4, Some(8)), "{server}");
                assert!(query.xid.is_some());
            }
            Event::Statement(part) => {
                parts.insert(match part {
                    StatementPart::IntVar => "intvar",
                    StatementPart::Rand => "rand",
                    StatementPart::UserVar => "user variable",
                    StatementPart::LoadData => "load data",
                });
            }
            _ => {}
        });
        assert_eq!(seen, 1, "{server}");
        assert_eq!(parts, BTreeSet::from(["intvar", "load data", "rand", "user variable"]), "{server}");
    }
}

#[test]
fn partitions_are_named_where_the_server_names_them() {
    let mut partitions = BTreeSet::new();
    each_event("mysql-9.7/changes", |event| {
        if let Event::Rows(rows) = event {
            partitions.insert(rows.partition);
        }
    });
    assert_eq!(partitions, BTreeSet::from([None, Some(0), Some(1)]));
}

#[test]
fn a_file_tells_who_wrote_it_and_which_comes_next() {
    for (name, version, checksums) in [
        ("mysql-9.7/changes", "9.7.", true),
        ("mysql-9.7/no_checksums", "9.7.", false),
        ("mariadb-10.11/changes", "10.11.", true),
        ("mariadb-11.8/no_checksums", "11.8.", false),
    ] {
        let mut next = None;
        each_event(name, |event| match event {
            Event::FormatDescription(description) => {
                assert!(description.server_version.starts_with(version), "{}", description.server_version);
                assert!(description.timestamp > 1_500_000_000);
            }
            Event::Rotate { file, position } => next = Some(((*file).to_owned(), *position)),
            _ => {}
        });
        let (file, position) = next.unwrap();
        assert!(file.starts_with("binlog.0") && position == 4, "{file}:{position}");
        // A flipped bit in the last event shows only where there are checksums.
        let mut capture = capture(name);
        let at = capture.log.len() - 6;
        capture.log[at] ^= 1;
        let read = file::events(capture.flavour, &capture.log, |_, _| Ok(()));
        assert_eq!(read.is_err(), checksums, "{name}: {read:?}");
    }
}
