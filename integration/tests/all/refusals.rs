//! Bad input: one line that says what to do, and an exit code that says what kind of thing it is.

use anyhow::ensure;
use calve_integration::binary::{self, Finished};
use calve_integration::foreign::CatalogLock;
use calve_testkit::servers::{Postgres, REPLICATION_USER};

use crate::case::{Case, complains};

const ONE: &str =
    "create table t (id int primary key, v text); insert into t values (1, 'a'); create table keyless (v text)";

fn run_with(case: &Case, source: &str) -> anyhow::Result<Finished> {
    case.pipeline.clone().source(source).finish(&["run", "--once"])
}

#[test]
fn an_unreachable_host() -> anyhow::Result<()> {
    let case = Case::new("unreachable", ONE, &["public.t"])?;
    complains(&run_with(&case, "postgres://calve:calve@127.0.0.1:1/x")?, 6, &["127.0.0.1:1", "refused"])?;
    complains(&run_with(&case, "postgres://calve:calve@nowhere.invalid/x")?, 6, &["nowhere.invalid"])?;
    case.pass()
}

#[test]
fn a_wrong_password_user_or_database() -> anyhow::Result<()> {
    let case = Case::new("password", ONE, &["public.t"])?;
    let url = case.database.url(REPLICATION_USER)?;
    let wrong = run_with(&case, &url.replace("calve:calve", "calve:wrong"))?;
    complains(&wrong, 2, &["password", "calve"])?;
    let none = run_with(&case, &url.replace("calve:calve", "calve"))?;
    complains(&none, 2, &["PGPASSWORD"])?;
    let database = run_with(&case, &url.replace(case.database.name(), "no_such_database"))?;
    complains(&database, 2, &["no_such_database"])?;
    case.pass()
}

#[test]
fn a_missing_table() -> anyhow::Result<()> {
    let case = Case::new("missing", ONE, &["public.tt"])?;
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &["public.tt", "does not exist", "public.t"])?;
    let none = case.pipeline.clone().tables(&["nowhere.*"]);
    complains(&none.finish(&["run", "--once"])?, 2, &["nowhere.*"])?;
    case.pass()
}

#[test]
fn a_table_without_a_key() -> anyhow::Result<()> {
    let case = Case::new("keyless", ONE, &["public.keyless"])?;
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &["public.keyless", "key", "ADD PRIMARY KEY"])?;
    case.pass()
}

#[test]
fn unknown_and_wrong_options_are_told_all_at_once() -> anyhow::Result<()> {
    let case = Case::new("options", ONE, &["public.t"])?;
    let one = case.pipeline.clone().with("namespce: lake");
    complains(&one.finish(&["run", "--once"])?, 2, &["namespce", "did you mean 'namespace'", ".yaml:1"])?;

    let several = case
        .pipeline
        .clone()
        .checkpoint("intervall", "5s")
        .with("namespace: ${CALVE_TEST_UNSET}\nexpiry:\n  age: soon\nparallelism: many");
    let finished = several.finish(&["run", "--once"])?;
    ensure!(finished.code == Some(2), "{finished:?}");
    for part in ["intervall", "did you mean 'interval'", "CALVE_TEST_UNSET", "soon", "parallelism"] {
        ensure!(finished.stderr.contains(part), "it does not say {part}:\n{}", finished.stderr);
    }
    case.pass()
}

#[test]
fn a_lake_that_cannot_be_written() -> anyhow::Result<()> {
    let case = Case::new("unwritable", ONE, &["public.t"])?;
    // Not a matter of permissions, which the superuser of a machine has all of.
    let file = case.directory.path().join("a_file");
    std::fs::write(&file, "not a directory")?;
    let unwritable = case.pipeline.clone().lake_at(&file.join("lake"));
    complains(&unwritable.finish(&["run", "--once"])?, 2, &["a_file", "cannot be written", "--into"])?;
    case.pass()
}

#[test]
fn a_table_of_another_pipeline() -> anyhow::Result<()> {
    let mut case = Case::new("owned", ONE, &["public.t"])?;
    case.once_and_same(&["public.t"])?;
    let mut words = binary::command(["run", "--once", "--name", "intruder", "--table", "public.t"])?;
    words.args(["--source", &case.database.url(REPLICATION_USER)?, "--into"]).arg(case.lake().path());
    let refused = binary::finish(words, &case.pipeline.log("intruder"))?;
    complains(&refused, 2, &["public.t", case.pipeline.name(), "intruder"])?;
    // The first one is none the worse for it, and the second left no slot.
    case.sql.run("update t set v = 'b'")?;
    case.once_and_same(&["public.t"])?;
    ensure!(
        case.sql.value("select count(*) from pg_replication_slots where slot_name = 'calve_intruder'")? == "0",
        "a slot is left"
    );
    case.pass()
}

#[test]
fn a_locked_catalog() -> anyhow::Result<()> {
    // Held by somebody who made the file; of one that is locked later, commits wait until it is free again.
    let mut case = Case::new("catalog", ONE, &["public.t"])?;
    std::fs::create_dir_all(case.lake().path())?;
    let lock = CatalogLock::hold(case.lake())?;
    let finished = case.pipeline.finish(&["run", "--once"])?;
    complains(&finished, 6, &["catalog", "locked"])?;
    drop(lock);
    case.once_and_same(&["public.t"])?;
    case.pass()
}

#[test]
fn a_pipeline_that_is_running_already() -> anyhow::Result<()> {
    let mut case = Case::new("running", ONE, &["public.t"])?;
    let calve = case.pipeline.start()?;
    case.await_same(&["public.t"])?;
    complains(&case.pipeline.finish(&["run"])?, 4, &["already running", "--name"])?;
    calve.terminate()?;
    case.pass()
}

#[test]
fn nothing_was_asked_for() -> anyhow::Result<()> {
    let case = Case::new("nothing", ONE, &["public.t"])?;
    let finish = |words: &[&str]| -> anyhow::Result<Finished> {
        binary::finish(binary::command(words)?, &case.pipeline.log("words"))
    };
    let lake = case.lake().path().to_string_lossy().into_owned();
    let finished = finish(&["status", "--into", &lake])?;
    ensure!(finished.code == Some(2), "{finished:?}");
    let finished = finish(&["run", "--into", &lake])?;
    ensure!(finished.code == Some(2) && finished.stderr.contains("--source"), "{finished:?}");
    let url = Postgres::shared(17)?.url(REPLICATION_USER, case.database.name())?;
    let finished = finish(&["run", "--into", &lake, "--source", &url])?;
    ensure!(finished.code == Some(2) && finished.stderr.contains("--table"), "{finished:?}");
    case.pass()
}
