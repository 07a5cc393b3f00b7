//! The replication slot and the publication: they move, they are waited for, they are missed when they are gone.

use std::time::{Duration, Instant};

use anyhow::ensure;
use calve_integration::foreign::CatalogLock;
use calve_integration::pipeline::until;
use calve_testkit::servers::{Options, Postgres};

use crate::case::{Case, complains};

const TWO: &str = "
    create table a (id int primary key, v text); create table b (id int primary key, v text);
    insert into a select i, 'a' from generate_series(1, 50) i; insert into b select i, 'b' from generate_series(1, 50) i;";
const TABLES: [&str; 2] = ["public.a", "public.b"];

#[test]
fn foreign_traffic_does_not_pin_the_log() -> anyhow::Result<()> {
    let schema = format!("{TWO} create table noise (v text);");
    let mut case = Case::new("foreign", &schema, &["public.a"])?;
    let calve = case.pipeline.start()?;
    case.await_same(&["public.a"])?;
    for _ in 0..2 {
        case.sql.run("insert into noise select repeat(md5(i::text), 30) from generate_series(1, 10000) i")?;
        let end = case.log_end()?;
        until("the slot to pass foreign traffic", || case.acknowledged_to(&end))?;
    }
    calve.terminate()?;
    case.once_and_same(&["public.a"])?;
    case.pass()
}

/// Not even with nothing left to follow: calve stays, lets the log go, and takes the table up again.
#[test]
fn tables_that_are_all_stopped_do_not_pin_the_log() -> anyhow::Result<()> {
    let schema = format!("{TWO} create table noise (v text);");
    let mut case = Case::new("allstopped", &schema, &["public.a"])?;
    let calve = case.pipeline.start()?;
    case.await_same(&["public.a"])?;
    case.sql.run("alter table a alter v type int using 1; update a set v = 2 where id = 1")?;
    case.pipeline.await_state("public.a", "stopped")?;
    for _ in 0..2 {
        case.sql.run("insert into noise select repeat(md5(i::text), 30) from generate_series(1, 10000) i; update a set v = v + 1")?;
        let end = case.log_end()?;
        until("the slot to pass what nobody follows", || case.acknowledged_to(&end))?;
    }
    case.pipeline.finish(&["reload", "public.a"])?.expect_success()?;
    case.sql.run("update a set v = 7 where id = 3")?;
    case.await_same(&["public.a"])?;
    calve.terminate()?;
    case.once_and_same(&["public.a"])?;
    case.pass()
}

#[test]
fn an_idle_connection_and_a_slow_catalog_are_kept_alive() -> anyhow::Result<()> {
    let server = Postgres::start(17, &Options::default().set("wal_sender_timeout", "2s"))?;
    let mut case = Case::on(&server, "alive", TWO, &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    let walsender =
        format!("select active_pid::text from pg_replication_slots where slot_name = '{}'", case.pipeline.slot());
    let first = case.sql.value(&walsender)?;
    std::thread::sleep(Duration::from_secs(5));
    ensure!(case.sql.value(&walsender)? == first, "the idle connection was lost");
    let lock = CatalogLock::hold(case.lake())?;
    case.sql.run("update a set v = 'while the catalog hangs'")?;
    std::thread::sleep(Duration::from_secs(6));
    ensure!(case.sql.value(&walsender)? == first, "the connection was lost while the catalog hung");
    drop(lock);
    case.await_same(&TABLES)?;
    ensure!(case.sql.value(&walsender)? == first, "the connection was lost afterwards");
    calve.terminate()?;
    case.pass()
}

#[test]
fn killed_and_started_at_once() -> anyhow::Result<()> {
    let mut case = Case::new("at_once", TWO, &TABLES)?;
    case.once_and_same(&TABLES)?;
    for round in 0..4 {
        let calve = case.pipeline.start()?;
        case.sql.run(&format!("update a set v = 'round {round}'; insert into b values (100 + {round}, 'x')"))?;
        until("the slot to be taken", || Ok(calve.log().contains("streaming") || calve.log().contains("Streaming")))?;
        calve.kill()?;
    }
    case.once_and_same(&TABLES)?;
    case.pass()
}

#[test]
fn a_dropped_pipeline_leaves_nothing_at_the_source() -> anyhow::Result<()> {
    let mut case = Case::new("dropped", TWO, &TABLES)?;
    case.once_and_same(&TABLES)?;
    let slots = format!("select count(*) from pg_replication_slots where database = '{}'", case.database.name());
    ensure!(case.sql.value(&slots)? == "1");
    let refused = case.pipeline.finish(&["drop"])?;
    complains(&refused, 2, &["--yes"])?;
    let dropped = case.pipeline.finish(&["drop", "--yes"])?.expect_success()?;
    ensure!(dropped.stdout.contains(&case.pipeline.slot()), "{}", dropped.stdout);
    ensure!(case.sql.value(&slots)? == "0", "a slot is left");
    ensure!(case.sql.value("select count(*) from pg_publication")? == "0", "a publication is left");
    ensure!(!case.lake().positions(case.pipeline.name()).exists(), "local state is left");
    // The tables stay, and the pipeline can be started again: what the log no longer tells is read again.
    case.same(&TABLES)?;
    case.sql.run("update a set v = 'unseen'; delete from b where id = 1")?;
    let again = case.pipeline.finish(&["run", "--once"])?;
    if again.code != Some(0) {
        complains(&again, 3, &["reload --all"])?;
        case.pipeline.finish(&["reload", "--all"])?.expect_success()?;
    }
    case.once_and_same(&TABLES)?;
    case.pipeline.finish(&["drop", "--yes", "--tables"])?.expect_success()?;
    ensure!(case.lake().metadata("public", "a").is_err(), "a table is left");
    ensure!(!case.lake().path().join("warehouse/public/a/data").exists(), "files are left");
    case.pass()
}

/// Nothing is skipped: the pipeline refuses to go on, and says how to.
fn refuses_a_gap(case: &mut Case) -> anyhow::Result<()> {
    let finished = case.pipeline.finish(&["run", "--once"])?;
    complains(&finished, 3, &["calve reload --all"])?;
    case.pipeline.finish(&["reload", "--all"])?.expect_success()?;
    case.sql.run("update a set v = 'after all'; insert into b values (777, 'after all')")?;
    case.once_and_same(&TABLES)
}

#[test]
fn a_slot_that_is_gone() -> anyhow::Result<()> {
    let mut case = Case::new("slot_gone", TWO, &TABLES)?;
    case.once_and_same(&TABLES)?;
    case.database.psql(&format!("select pg_drop_replication_slot('{}')", case.pipeline.slot()))?;
    case.sql.run("update a set v = 'lost to the log'; delete from b where id = 3")?;
    refuses_a_gap(&mut case)?;
    case.pass()
}

#[test]
fn a_slot_made_anew_at_the_tip() -> anyhow::Result<()> {
    let mut case = Case::new("slot_anew", TWO, &TABLES)?;
    case.once_and_same(&TABLES)?;
    let slot = case.pipeline.slot();
    case.database.psql(&format!("select pg_drop_replication_slot('{slot}')"))?;
    case.sql.run("update a set v = 'lost to the log'; delete from b where id = 3")?;
    case.database.psql(&format!("select pg_create_logical_replication_slot('{slot}', 'pgoutput')"))?;
    refuses_a_gap(&mut case)?;
    case.pass()
}

#[test]
fn a_slot_dropped_while_running() -> anyhow::Result<()> {
    let mut case = Case::new("slot_dropped", TWO, &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    let slot = case.pipeline.slot();
    until("the slot to be dropped between two connections", || {
        let drop = format!(
            "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '{slot}' and active;
             select pg_drop_replication_slot('{slot}')"
        );
        Ok(case.database.psql(&drop).is_ok())
    })?;
    case.sql.run("update a set v = 'lost to the log'")?;
    let finished = calve.wait(calve_integration::binary::PATIENCE)?;
    complains(&finished, 3, &["slot", "calve reload --all"])?;
    refuses_a_gap(&mut case)?;
    case.pass()
}

#[test]
fn another_cluster_behind_the_same_address() -> anyhow::Result<()> {
    let mut case = Case::new("cluster", TWO, &TABLES)?;
    case.once_and_same(&TABLES)?;
    // Same tables, same slot and publication, even a log that is further on.
    let other = Postgres::start(17, &Options::default())?;
    let mut elsewhere = Case::on(&other, "cluster_other", TWO, &TABLES)?;
    elsewhere.sql.run("update a set v = 'of another world'")?;
    elsewhere
        .database
        .psql(&format!("select pg_create_logical_replication_slot('{}', 'pgoutput')", case.pipeline.slot()))?;
    elsewhere.database.psql("create table grow as select repeat('x', 1000) from generate_series(1, 20000)")?;
    let url = elsewhere.database.url("calve")?;
    let moved = case.pipeline.clone().source(&url);
    complains(&moved.finish(&["run", "--once"])?, 3, &["reload --all"])?;
    case.once_and_same(&TABLES)?;
    elsewhere.pass()?;
    case.pass()
}

#[test]
fn a_table_taken_out_of_the_publication() -> anyhow::Result<()> {
    let mut case = Case::new("unpublished", TWO, &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    let publication = case.pipeline.slot();
    case.sql.run(&format!("alter publication {publication} drop table b"))?;
    case.sql.run("update b set v = 'not published'; insert into a values (100, 'published')")?;
    // Whether it notices at once or at the next start: no silent gap.
    case.await_same(&["public.a"])?;
    if let Ok(finished) = calve.terminate() {
        ensure!(finished.code == Some(0));
    }
    let finished = case.pipeline.finish(&["run", "--once"])?;
    if finished.code == Some(0) {
        case.same(&TABLES)?;
    } else {
        ensure!(finished.code == Some(3), "{finished:?}");
        let state = case.pipeline.state("public.b")?;
        ensure!(state.state == "stopped" && state.reason.contains("reload"), "{state:?}");
        case.pipeline.finish(&["reload", "public.b"])?.expect_success()?;
    }
    case.sql.run("update b set v = 'published again'")?;
    case.once_and_same(&TABLES)?;
    case.pass()
}

#[test]
fn a_role_that_may_no_longer_replicate() -> anyhow::Result<()> {
    let mut case = Case::new("revoked", TWO, &TABLES)?;
    let role = format!("r_{}", case.database.name());
    case.database.psql(&format!(
        "create role {role} login replication password '{role}' in role calve; grant create on database {} to {role}",
        case.database.name()
    ))?;
    let url = case.database.url(&role)?;
    case.pipeline = case.pipeline.clone().source(&url);
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    case.database.psql(&format!(
        "alter role {role} noreplication; select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '{}'",
        case.pipeline.slot()
    ))?;
    case.sql.run("update a set v = 'while revoked'")?;
    let began = Instant::now();
    if let Ok(finished) = calve.wait(Duration::from_secs(30)) {
        complains(&finished, 2, &["REPLICATION"])?;
    } else {
        anyhow::bail!("after {:?} calve still runs without the right to", began.elapsed());
    }
    case.database.psql(&format!("alter role {role} replication"))?;
    case.once_and_same(&TABLES)?;
    case.pipeline.finish(&["drop", "--yes"])?.expect_success()?;
    case.database.psql(&format!("reassign owned by {role} to calve; drop owned by {role}; drop role {role}"))?;
    case.pass()
}
