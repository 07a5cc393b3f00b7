//! Continuous, exactly-once replication of database tables into Apache Iceberg.
//!
//! The binary: it reads the command line and the configuration, wires source, engine, lake and local state together, and
//! shows what they do. What a command does stands in [`command`], one file each.

mod args;
mod bounds;
mod command;
mod config;
mod control;
mod database;
mod ending;
mod environment;
#[cfg(feature = "failpoints")]
mod failpoint;
mod lake_dir;
mod logging;
mod progress;
mod show;
mod signals;
#[cfg(test)]
mod test_dir;
mod verify;
mod wiring;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use args::{Cli, Command};
use ending::Ending;

fn main() -> ExitCode {
    let cli = Cli::parse();
    ending::exit(ending::on_runtime(dispatch(cli.command)))
}

async fn dispatch(command: Command) -> calve_core::Result<Ending> {
    match command {
        Command::Run { options, once } => Box::pin(command::run(options.into_given().settings()?, once)).await,
        Command::Reload { tables, all, config, flags } => {
            let settings = flags.into_given(config).settings_or_recorded()?;
            Box::pin(command::reload(settings, (!all).then_some(tables.as_slice()))).await
        }
        Command::Check { options } => command::check(options.into_given().settings_or_recorded()?).await,
        Command::Status { options, json } => command::status(options.into_given().settings_or_recorded()?, json).await,
        Command::Verify { options, show, wait } => {
            let wait = Duration::from_secs(wait);
            command::verify(options.into_given().settings_or_recorded()?, show, wait).await
        }
        Command::Drop { options, tables, yes } => {
            command::drop(options.into_given().settings_or_recorded()?, tables, yes).await
        }
    }
}
