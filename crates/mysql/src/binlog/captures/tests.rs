//! What the captures must give.

use std::collections::BTreeSet;

use super::model::Model;
use super::{Capture, capture, captures, file, shown};

/// Tables whose rows cannot be read to the end on purpose.
fn stops(capture: &Capture) -> Model {
    let mut model = Model::new(capture.flavour, &capture.tables);
    file::events(capture.flavour, &capture.log, |_, event| model.event(event))
        .unwrap_or_else(|error| panic!("{}: {error}", capture.name));
    model
}

/// Rows of both sides as lines, those that only one has.
fn differences(capture: &Capture) -> Vec<String> {
    let model = stops(capture);
    let mut found = Vec::new();
    for (table, why) in &model.stops {
        found.push(format!("{}: {table} stopped: {why}", capture.name));
    }
    for ((name, rows), table) in model.fold().into_iter().zip(&capture.tables) {
        let line = |row: &[Option<String>]| {
            let cells = table.schema.columns.iter().zip(row);
            let cells = cells.map(|(column, cell)| format!("{}={cell:?}", column.name));
            cells.collect::<Vec<_>>()
        };
        let normal = |row: &Vec<Option<String>>| -> Vec<Option<String>> {
            let cells = table.schema.columns.iter().zip(row);
            cells.map(|(column, cell)| shown::normal(column, cell.as_deref())).collect()
        };
        let decoded: BTreeSet<Vec<Option<String>>> = rows.into_iter().collect();
        let selected: BTreeSet<Vec<Option<String>>> = table.rows.iter().map(normal).collect();
        for row in decoded.symmetric_difference(&selected) {
            let side = if decoded.contains(row) { "decoded" } else { "selected" };
            found.push(format!("{}: {name}: {side} {}", capture.name, line(row).join(" ")));
        }
    }
    found
}

#[test]
fn rows_decoded_from_the_log_are_those_that_select_shows() {
    let whole = |capture: &&Capture| !capture.name.ends_with("unfit") && !capture.name.ends_with("not_full");
    let found: Vec<String> = captures().iter().filter(whole).flat_map(differences).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn unwanted() {
    let _ = capture("mysql-9.7/types_full");
}
