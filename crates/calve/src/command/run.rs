//! `run`: checks, then loads and streams until stopped.

use std::collections::BTreeSet;
use std::sync::Arc;

use calve_core::{Error, ErrorKind, Lake, Result, StopReason, TableName};
use calve_engine::Ports;
use calve_positions::Positions;

use super::check;
use crate::config::Settings;
use crate::control::Server;
use crate::ending::Ending;
use crate::environment::Machine;
use crate::lake_dir::{PipelineLock, PipelineRecord, RecordedTable};
use crate::logging;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::wiring::{self, Targets};

pub(crate) async fn run(settings: Settings, once: bool) -> Result<Ending> {
    logging::start(&settings);
    settings.source()?;
    settings.tables.required()?;
    let lock = settings.pipeline_dir().lock(&settings.pipeline)?;
    let mut signals = Signals::listen()?;
    let prepare = async {
        let before = wiring::tables_before(&settings)?;
        let targets = wiring::select_tables(&settings, &before).await?;
        check::refuse_unmet(&settings, &targets, &before).await?;
        Ok::<_, Error>(targets)
    };
    let targets = tokio::select! {
        targets = prepare => targets?,
        _ = signals.next() => {
            tracing::info!("left before anything was begun");
            return Ok(Ending::Done);
        }
    };
    pipeline(&settings, &targets, lock, signals, Mode { once, reload: BTreeSet::new() }).await
}

/// How a pipeline is run.
pub(crate) struct Mode {
    /// Leave when the source's present position is reached.
    pub(crate) once: bool,
    /// Tables to read again first.
    pub(crate) reload: BTreeSet<TableName>,
}

/// Runs the pipeline in this process, which holds the pipeline's lock.
pub(crate) async fn pipeline(
    settings: &Settings,
    targets: &Targets,
    lock: PipelineLock,
    signals: Signals,
    mode: Mode,
) -> Result<Ending> {
    let directory = settings.pipeline_dir();
    let lake = wiring::lake(settings, targets).await?;
    // A table of another pipeline is refused before anything of this one is left behind.
    for table in targets.keys() {
        lake.load(table).await?;
    }
    let recorded =
        targets.iter().map(|(source, target)| RecordedTable { source: source.clone(), target: target.clone() });
    directory.write_record(&PipelineRecord::new(&settings.pipeline, settings.raw.to_record(), recorded.collect()))?;
    let positions = Arc::new(Positions::open(directory.positions(), &settings.pipeline)?);
    let server = Server::bind(&directory.socket())?;

    let progress = Arc::new(Progress::new(targets.keys().cloned()));
    let (handle, control) = calve_engine::control();
    let ports = Ports {
        source: wiring::database(settings)?.source(),
        writer: lake.clone(),
        lake,
        positions,
        environment: Arc::new(Machine::new()),
        observer: progress.clone(),
    };
    #[cfg(feature = "failpoints")]
    let ports = crate::failpoint::decorate(ports);
    tracing::info!(pipeline = settings.pipeline, tables = targets.len(), source = %settings.source()?, into = %settings.lake_dir(), "starting");

    let result = tokio::select! {
        // The engine's last words count: the others never end.
        biased;
        result = calve_engine::run(ports, engine_settings(settings, targets, &mode), control) => result,
        () = server.serve(progress.clone(), handle.clone()) => unreachable!("the server never ends"),
        () = signals.obey(handle) => unreachable!("obeying ends the process"),
        () = progress.tell_steadily() => unreachable!("it is told for ever"),
    };
    drop((server, lock));
    result?;
    let stopped = progress.stopped();
    tracing::info!(stopped_tables = stopped.len(), "left");
    let asked = |(table, _): &(TableName, StopReason)| mode.reload.is_empty() || mode.reload.contains(table);
    let asked: Vec<_> = stopped.into_iter().filter(asked).collect();
    if mode.once { all_went_on(&asked) } else { Ok(Ending::Done) }
}

/// With `--once` a stopped table means that not all was done; where tables were to be read again, one of those.
fn all_went_on(stopped: &[(TableName, StopReason)]) -> Result<Ending> {
    match stopped {
        [] => Ok(Ending::Done),
        [(table, reason)] => Err(Error::new(ErrorKind::SourceGone, format!("table {table} is stopped: {reason}"))),
        many => {
            let names: Vec<_> = many.iter().map(|(table, reason)| format!("{table} ({})", reason.state)).collect();
            let message =
                format!("{} tables are stopped: {}; calve status shows the way out", many.len(), names.join(", "));
            Err(Error::new(ErrorKind::SourceGone, message))
        }
    }
}

fn engine_settings(settings: &Settings, targets: &Targets, mode: &Mode) -> calve_engine::Settings {
    calve_engine::Settings {
        tables: targets.keys().cloned().collect(),
        reload: mode.reload.clone(),
        once: mode.once,
        checkpoint_interval: settings.checkpoint.interval,
        checkpoint_rows: settings.checkpoint.rows,
        checkpoint_bytes: settings.checkpoint.bytes,
        commit_parallelism: settings.commit_parallelism,
        idle_interval: settings.checkpoint.idle_interval,
        schema_changes: settings.schema_changes,
        schema_changes_of: targets.keys().map(|table| (table.clone(), settings.policies(table))).collect(),
        values: settings.tables.rules(),
        rules: rules(),
        ..calve_engine::Settings::default()
    }
}

#[cfg(not(feature = "mutations"))]
fn rules() -> calve_engine::Rules {
    calve_engine::Rules::default()
}

/// The rule to switch off, for tests that must notice it.
#[cfg(feature = "mutations")]
fn rules() -> calve_engine::Rules {
    use calve_engine::{Mutation, Rules};
    match std::env::var("CALVE_MUTATION").as_deref() {
        Err(_) => Rules::default(),
        Ok("no-stamp") => Rules::without(Mutation::NoStamp),
        Ok("skip-off") => Rules::without(Mutation::SkipOff),
        Ok("old-schema") => Rules::without(Mutation::OldSchema),
        Ok("ack-early") => Rules::without(Mutation::AckEarly),
        Ok(other) => panic!("CALVE_MUTATION={other} is not known: use no-stamp, skip-off, ack-early or old-schema"),
    }
}
