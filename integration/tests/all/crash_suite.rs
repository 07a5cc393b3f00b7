//! The crash suite notices what it is there to notice: with a rule of the protocol switched off it fails.

use std::process::Command;

use anyhow::ensure;
use calve_integration::binary;

/// A campaign that must fail, because rows are lost or doubled, or calve itself sees that some would be.
fn notices(source: &str, mutation: &str) -> anyhow::Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crash"));
    command.args(["--source", source, "--rounds", "6", "--seconds", "4", "--seed", "7", "--mutation", mutation]);
    command.env("CALVE_BIN", binary::find()?);
    let done = command.output()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    ensure!(done.status.code() == Some(1), "with {mutation} the suite ended with {:?}\n{said}{errors}", done.status);
    let seen = [
        "only in the source",
        "only in the table",
        "rows of",
        "add up to",
        "beyond everything the lake records",
        // What an update left alone is looked up in a row that is not there, or is there twice.
        "the table in the lake has no such row",
        "has two rows of one key in the lake",
    ];
    ensure!(
        seen.iter().any(|sign| said.contains(sign)),
        "with {mutation} it failed for another reason:\n{said}{errors}"
    );
    Ok(())
}

#[test]
fn commits_without_a_stamp_are_noticed() -> anyhow::Result<()> {
    notices("postgres", "no-stamp")
}

#[test]
fn replays_that_are_not_skipped_are_noticed() -> anyhow::Result<()> {
    notices("postgres", "skip-off")
}

// MySQL and MariaDB keep their logs for their own time: nothing is acknowledged there that could be so too early.
#[test]
fn commits_without_a_stamp_are_noticed_on_mysql() -> anyhow::Result<()> {
    notices("mysql", "no-stamp")
}

#[test]
fn replays_that_are_not_skipped_are_noticed_on_mysql() -> anyhow::Result<()> {
    notices("mysql", "skip-off")
}

#[test]
fn commits_without_a_stamp_are_noticed_on_mariadb() -> anyhow::Result<()> {
    notices("mariadb", "no-stamp")
}

#[test]
fn replays_that_are_not_skipped_are_noticed_on_mariadb() -> anyhow::Result<()> {
    notices("mariadb", "skip-off")
}

#[test]
fn early_acknowledgements_are_noticed() -> anyhow::Result<()> {
    notices("postgres", "ack-early")
}

/// Random migrations that must fail, because a table follows its schema wrongly or rows are doubled.
fn migrations_notice(source: &str, mutation: &str) -> anyhow::Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_migrate"));
    command.args(["--source", source, "--minutes", "2", "--seed", "4", "--mutation", mutation]);
    command.env("CALVE_BIN", binary::find()?);
    let done = command.output()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    ensure!(done.status.code() == Some(1), "with {mutation} they ended with {:?}\n{said}{errors}", done.status);
    Ok(())
}

#[test]
fn schemas_that_are_not_recorded_are_noticed() -> anyhow::Result<()> {
    migrations_notice("postgres", "old-schema")
}

#[test]
fn schemas_that_are_not_recorded_are_noticed_on_mysql() -> anyhow::Result<()> {
    migrations_notice("mysql", "old-schema")
}
