//! The report for people.

use std::fmt::Write;
use std::time::Duration;

use super::report::{Report, SourceReport, TableReport};
use crate::show;

pub(super) fn text(report: &Report) -> String {
    let mut out = heading(report);
    out.push_str(&source(&report.source));
    out.push('\n');
    let heading = ["TABLE", "STATE", "LAG", "BEHIND", "ROWS", "DATA", "DELETES", "SIZE", "LAST COMMIT"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(report.tables.iter().map(row));
    out.push_str(&show::table(&rows));
    for table in &report.tables {
        for (count, became) in [
            (table.nulled_values, "became NULL, such as zero dates and what on_unrepresentable says"),
            (table.clamped_values, "became the nearest that the lake holds, as on_unrepresentable says"),
        ] {
            if let Some(count) = count.filter(|count| *count > 0) {
                let values = if count == 1 { "value" } else { "values" };
                let _ = writeln!(out, "\n{}: {} {values} {became}", table.table, show::count(count));
            }
        }
        if let Some(reason) = &table.reason {
            let _ = writeln!(out, "\n{} is stopped: {reason}", table.table);
        }
    }
    out
}

fn heading(report: &Report) -> String {
    let mut out = format!("pipeline {} into {}: ", report.pipeline, report.lake);
    match (report.process, &report.since) {
        (Some(process), Some(since)) => {
            let _ = write!(out, "running as process {process} since {since}");
        }
        _ => out.push_str("not running"),
    }
    if let Some(position) = &report.position {
        let _ = write!(out, ", complete to {position}");
    }
    if let Some(rate) = report.rows_per_second {
        let _ = write!(out, ", {} rows/s", show::count(rate));
    }
    out.push('\n');
    if let Some(retrying) = &report.retrying {
        let _ = writeln!(out, "trying again: {retrying}");
    }
    out
}

fn source(source: &SourceReport) -> String {
    let address = source.address.as_deref().unwrap_or("unknown");
    if let Some(error) = &source.error {
        return format!("source {address}: not reachable: {error}\n");
    }
    let position = source.position.as_ref().map_or(String::new(), |position| format!(" at {position}"));
    let slot = match &source.slot {
        None => String::new(),
        Some(slot) => match slot.active {
            None => format!("; slot {} does not exist", slot.name),
            Some(active) => {
                let state = if active { "active" } else { "not active" };
                let retained =
                    slot.retained_bytes.map_or(String::new(), |b| format!(", keeps {} of WAL", show::bytes(b)));
                let status = slot.wal_status.as_ref().filter(|status| *status != "reserved");
                let status = status.map_or(String::new(), |status| format!(", WAL {status}"));
                format!("; slot {} {state}{retained}{status}", slot.name)
            }
        },
    };
    format!("source {address}{position}{slot}\n")
}

fn row(table: &TableReport) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let state = match (table.state, &table.load) {
        ("loading", Some(load)) => {
            let part = load.estimated.filter(|estimated| *estimated > 0).map_or(String::new(), |estimated| {
                // The estimate is the source's statistics, which may be behind.
                format!(" {}%", (load.rows.saturating_mul(100) / estimated).min(99))
            });
            let eta = load
                .eta_seconds
                .map_or(String::new(), |s| format!(", {} left", show::duration(Duration::from_secs(s))));
            format!("loading{part}, {} rows/s{eta}", show::count(load.rows_per_second))
        }
        (state, _) => {
            table.reason.as_ref().map_or_else(|| state.to_owned(), |reason| format!("{state}: {}", reason.state))
        }
    };
    let name =
        if table.table == table.target { table.table.clone() } else { format!("{} -> {}", table.table, table.target) };
    vec![
        name,
        state,
        or_dash(table.lag_seconds.map(|seconds| show::duration(Duration::from_secs(seconds)))),
        or_dash(table.lag_bytes.map(show::bytes)),
        or_dash(table.rows.map(show::count)),
        or_dash(table.data_files.map(show::count)),
        or_dash(table.delete_files.map(show::count)),
        or_dash(table.bytes.map(show::bytes)),
        or_dash(table.last_commit.clone()),
    ]
}
