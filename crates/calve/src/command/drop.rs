//! `drop`: the pipeline goes; its tables stay unless asked for.

use std::io::{BufRead, IsTerminal};

use calve_core::{Error, ErrorKind, Result};

use crate::config::Settings;
use crate::ending::Ending;
use crate::{logging, show, wiring};

pub(crate) async fn drop(settings: Settings, tables: bool, yes: bool) -> Result<Ending> {
    logging::start(&settings);
    let targets = wiring::pipeline_tables(&settings).await?;
    let directory = settings.pipeline_dir();
    let database = wiring::database(&settings)?;
    if !yes && !confirmed(&settings, database.belongings(), tables.then_some(targets.len()))? {
        show::line("nothing was removed");
        return Ok(Ending::Done);
    }
    // Held until the end: a running pipeline is not pulled away from under its process.
    let lock = directory.lock(&settings.pipeline)?;
    // The source first: what is left behind there costs somebody else's disk.
    for done in database.remove_belongings().await? {
        show::line(&done);
    }
    if tables {
        let lake = wiring::lake(&settings, &targets).await?;
        for (table, target) in &targets {
            if lake.drop_table(table).await? {
                show::line(&format!("removed table {target} and its files"));
            }
        }
    }
    directory.remove()?;
    std::mem::drop(lock);
    show::line(&format!("removed the local state in {}", directory.path().display()));
    Ok(Ending::Done)
}

fn confirmed(settings: &Settings, belongings: Option<String>, tables: Option<usize>) -> Result<bool> {
    let also = tables.map_or(String::new(), |count| format!(", and {count} TABLES WITH THEIR FILES"));
    let there = belongings.map_or(String::new(), |belongings| format!("{belongings}, "));
    if !std::io::stdin().is_terminal() {
        return Err(Error::new(
            ErrorKind::Config,
            "drop asks before it removes anything; add --yes where nobody can answer",
        ));
    }
    show::text(&format!("Remove pipeline '{}': {there}local state{also}? [y/N] ", settings.pipeline));
    let mut answer = String::new();
    let asked = std::io::stdin().lock().read_line(&mut answer);
    asked.map_err(|error| Error::with_source(ErrorKind::Config, "the answer cannot be read; add --yes", error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
