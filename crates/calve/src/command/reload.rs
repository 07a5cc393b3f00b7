//! `reload`: tables are read again and replaced in one commit each.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use calve_core::{Error, ErrorKind, Result, TableName};

use super::run::{Mode, pipeline};
use crate::config::{Settings, nearest};
use crate::control::{Answer, Client};
use crate::ending::Ending;
use crate::signals::Signals;
use crate::wiring::{self, Targets};
use crate::{logging, show};

/// How long a calve that holds the pipeline may take until it listens: it checks first.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads the tables again, through the running calve if there is one. `None` stands for all of them.
pub(crate) async fn reload(settings: Settings, names: Option<&[String]>) -> Result<Ending> {
    // Tables that were taken out of the configuration are followed no longer, by whatever command.
    let targets = wiring::chosen_tables(&settings, &wiring::pipeline_tables(&settings).await?)?;
    let tables = match names {
        None => targets.keys().cloned().collect(),
        Some(names) => chosen(names, &targets)?,
    };
    let begun = Instant::now();
    let lock = loop {
        if let Some(client) = Client::connect(&settings.pipeline_dir().socket()).await? {
            return ask(client, tables).await;
        }
        settings.source()?;
        match settings.pipeline_dir().lock(&settings.pipeline) {
            Ok(lock) => break lock,
            // It has just been started, or is leaving: soon it listens, or is gone.
            Err(error) if error.kind() == ErrorKind::Conflict && begun.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => return Err(error),
        }
    };
    logging::start(&settings);
    pipeline(&settings, &targets, lock, Signals::listen()?, Mode { once: true, reload: tables }).await
}

fn chosen(names: &[String], targets: &Targets) -> Result<BTreeSet<TableName>> {
    let known: Vec<_> = targets.keys().map(ToString::to_string).collect();
    let mut tables = BTreeSet::new();
    let mut unknown = Vec::new();
    for name in names {
        match name.parse::<TableName>() {
            Ok(table) if targets.contains_key(&table) => {
                tables.insert(table);
            }
            _ => unknown.push(match nearest(name, known.iter().map(String::as_str)) {
                Some(meant) => format!("{name} is not a table of this pipeline; did you mean {meant}?"),
                None => format!("{name} is not a table of this pipeline; calve status lists them"),
            }),
        }
    }
    if unknown.is_empty() { Ok(tables) } else { Err(Error::new(ErrorKind::Config, unknown.join("; "))) }
}

/// Has the running calve do it and shows how it goes.
async fn ask(mut client: Client, tables: BTreeSet<TableName>) -> Result<Ending> {
    client.reload(tables.into_iter().collect()).await?;
    let mut line = ProgressLine::default();
    let mut stopped = Vec::new();
    loop {
        match client.next_answer().await? {
            Answer::Loading { table, rows, estimated } => {
                let of = estimated.map_or(String::new(), |estimated| format!(" of about {}", show::count(estimated)));
                line.show(&format!("{table}: {} rows{of}", show::count(rows)));
            }
            Answer::Published { table } => {
                line.clear();
                show::line(&format!("{table}: replaced"));
            }
            Answer::Stopped { table, reason } => {
                line.clear();
                stopped.push(format!("table {table} stopped again: {reason}"));
            }
            Answer::Refused { why } => return Err(Error::new(ErrorKind::Config, why)),
            Answer::Status { .. } => {}
            Answer::Done if stopped.is_empty() => return Ok(Ending::Done),
            Answer::Done => return Err(Error::new(ErrorKind::SourceGone, stopped.join("; "))),
        }
    }
}

/// One line that is written over, on a terminal only.
#[derive(Default)]
struct ProgressLine {
    shown: bool,
}

impl ProgressLine {
    fn show(&mut self, text: &str) {
        let mut err = std::io::stderr();
        if err.is_terminal() {
            // Carriage return, and erase to the end of the line.
            let _ = write!(err, "\r{text}\x1b[K").and_then(|()| err.flush());
            self.shown = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let mut err = std::io::stderr();
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_those_of_the_pipeline() {
        let table = |text: &str| text.parse::<TableName>().unwrap();
        let targets: Targets = [(table("public.orders"), table("raw.orders"))].into();
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(&names(&["public.orders"]), &targets).unwrap(), [table("public.orders")].into());
        let error = chosen(&names(&["public.order", "x"]), &targets).unwrap_err().to_string();
        assert!(error.contains("did you mean public.orders?") && error.contains("x is not"), "{error}");
    }
}
