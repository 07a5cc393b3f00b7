//! `status`, `verify`, `check`, and how a running calve is asked to leave.

use std::time::Duration;

use anyhow::ensure;
use calve_integration::binary::PATIENCE;
use calve_integration::pipeline::until;
use calve_testkit::servers::{Options, Postgres, REPLICATION_USER};
use serde_json::Value;

use crate::case::Case;

const SHOP: &str = "
    create table orders (id int primary key, v text, amount numeric(9, 2));
    create table items (id int, line int, v text, primary key (id, line));
    insert into orders select i, 'v' || i, i from generate_series(1, 300) i;
    insert into items select i, l, 'x' from generate_series(1, 100) i, generate_series(1, 3) l;";
const TABLES: [&str; 2] = ["public.orders", "public.items"];

fn table<'a>(status: &'a Value, name: &str) -> &'a Value {
    let tables = status["tables"].as_array().map(Vec::as_slice).unwrap_or_default();
    tables.iter().find(|table| table["table"] == name).unwrap_or(&Value::Null)
}

#[test]
fn status_tells_the_same_with_and_without_a_running_calve() -> anyhow::Result<()> {
    let mut case = Case::new("status", SHOP, &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    case.sql.run("update orders set v = 'x' where id < 50; delete from items where line = 3")?;
    case.await_same(&TABLES)?;
    let end = case.log_end()?;
    until("the slot to follow", || case.acknowledged_to(&end))?;

    let live = case.pipeline.status()?;
    ensure!(live["running"] == true && live["process"] == calve.id(), "{live}");
    let readable = case.pipeline.finish(&["status"])?.expect_success()?;
    for word in ["public.orders", "public.items", "streaming"] {
        ensure!(readable.stdout.contains(word), "{}", readable.stdout);
    }
    calve.terminate()?;
    let rest = case.pipeline.status()?;
    ensure!(rest["running"] == false, "{rest}");

    for status in [&live, &rest] {
        ensure!(status["format"] == 1 && status["pipeline"] == case.pipeline.name(), "{status}");
        ensure!(
            status["source"]["reachable"] == true && status["source"]["slot"]["name"] == case.pipeline.slot(),
            "{status}"
        );
        ensure!(status["source"]["slot"]["retained_bytes"].is_u64(), "{status}");
        for (name, rows) in [("public.orders", 300), ("public.items", 200)] {
            let table = table(status, name);
            ensure!(table["state"] == "streaming", "{table}");
            ensure!(
                table["rows"] == Value::Null || table["rows"].as_u64().is_some_and(|counted| counted >= rows),
                "{table}"
            );
            ensure!(table["lag_bytes"].is_u64() && table["lag_seconds"].is_u64(), "{table}");
            ensure!(table["data_files"].as_u64() >= Some(1) && table["delete_files"].as_u64() >= Some(1), "{table}");
            ensure!(table["last_commit"].is_string() && table["position"].is_string(), "{table}");
        }
    }
    case.pass()
}

#[test]
fn verify_names_the_keys_that_differ() -> anyhow::Result<()> {
    let mut case = Case::new("verify", SHOP, &TABLES)?;
    case.once_and_same(&TABLES)?;
    let equal = case.pipeline.finish(&["verify"])?.expect_success()?;
    ensure!(equal.stdout.contains("public.orders: equal, 300 rows"), "{}", equal.stdout);

    // Behind calve's back: the table stays as it is while the source moves on, and nobody runs to catch up.
    case.sql.run("update orders set amount = amount + 1 where id = 7; delete from orders where id = 8; insert into orders values (1000, 'x', 1)")?;
    let differs = case.pipeline.finish(&["verify", "--wait", "1"])?.expect_code(7)?;
    for key in ["7", "8", "1000", "public.orders: 3 keys differ", "public.items: equal"] {
        ensure!(differs.stdout.contains(key), "verify does not say {key}:\n{}", differs.stdout);
    }
    case.once_and_same(&TABLES)?;
    case.pipeline.finish(&["verify"])?.expect_success()?;

    // What is wrong with one table says nothing of the others.
    case.sql.run("alter table items add column weight int not null default 1; update items set weight = 2")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    let stopped = case.pipeline.finish(&["verify"])?.expect_code(7)?;
    for part in ["public.items: not compared", "public.orders: equal"] {
        ensure!(stopped.stdout.contains(part), "verify does not say {part}:\n{}", stopped.stdout);
    }
    case.pass()
}

#[test]
fn verify_is_right_under_write_load() -> anyhow::Result<()> {
    let mut case = Case::new("verify_load", SHOP, &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    let url = case.database.url(REPLICATION_USER)?;
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| -> anyhow::Result<()> {
            let mut sql = calve_integration::sql::Sql::connect(&url)?;
            let mut n = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                n += 1;
                sql.run(&format!(
                    "update orders set amount = {n} where id % 10 = {0}; delete from items where id = {1};
                     insert into items values ({1}, 1, '{n}'), ({1}, 2, '{n}') on conflict do nothing",
                    n % 10,
                    n % 100
                ))?;
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        });
        let verified = (0..3).try_for_each(|_| case.pipeline.finish(&["verify"])?.expect_success().map(drop));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        load.join().expect("the load does not panic")?;
        verified
    })?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.pass()
}

#[test]
fn check_is_content_with_a_source_that_is_ready() -> anyhow::Result<()> {
    let case = Case::new("check", SHOP, &TABLES)?;
    let check = case.pipeline.finish(&["check"])?.expect_success()?;
    ensure!(check.stdout.contains("ready: 2 tables"), "{}", check.stdout);
    case.pass()
}

#[test]
fn check_names_everything_about_the_server() -> anyhow::Result<()> {
    let settings =
        Options::default().set("wal_level", "replica").set("max_replication_slots", "0").set("max_wal_senders", "0");
    let server = Postgres::start(17, &settings)?;
    let mut case = Case::on(&server, "server", SHOP, &TABLES)?;
    case.database.psql("create role poor login password 'poor'")?;
    let url = case.database.url("poor")?;
    case.pipeline = case.pipeline.clone().source(&url);
    let check = case.pipeline.finish(&["check"])?;
    let said = format!("{}{}", check.stdout, check.stderr);
    ensure!(check.code == Some(2), "{said}");
    for part in ["wal_level", "max_replication_slots", "max_wal_senders", "REPLICATION", "GRANT"] {
        ensure!(said.contains(part), "check does not speak of {part}:\n{said}");
    }
    case.pass()
}

#[test]
fn a_signal_finishes_the_checkpoint_and_leaves() -> anyhow::Result<()> {
    let mut case = Case::new("signals", SHOP, &TABLES)?;
    for signal in ["TERM", "INT"] {
        // Without the signal nothing would be committed for an hour.
        let calve = case.pipeline.clone().checkpoint("interval", "1h").start()?;
        case.pipeline.await_state("public.orders", "streaming")?;
        case.sql.run(&format!("update orders set v = '{signal}'; delete from items where id < 10; insert into items values (1, 1, '{signal}')"))?;
        let end = case.log_end()?;
        let sent = format!(
            "select r.sent_lsn >= '{end}' from pg_stat_replication r join pg_replication_slots s on s.active_pid = r.pid
             where s.slot_name = '{}'",
            case.pipeline.slot()
        );
        until("the changes to be sent", || Ok(case.database.psql(&sent)?.trim() == "t"))?;
        std::thread::sleep(Duration::from_millis(500));
        calve.signal(signal)?;
        calve.wait(PATIENCE)?.expect_success()?;
        case.same(&TABLES)?;
    }
    case.pass()
}

#[test]
fn a_second_signal_leaves_at_once_and_safely() -> anyhow::Result<()> {
    let mut case = Case::new("signal_twice", SHOP, &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    let lock = calve_integration::foreign::CatalogLock::hold(case.lake())?;
    case.sql.run("update orders set v = 'cannot be committed'")?;
    std::thread::sleep(Duration::from_millis(500));
    calve.signal("TERM")?;
    std::thread::sleep(Duration::from_millis(300));
    calve.signal("TERM")?;
    let finished = calve.wait(Duration::from_secs(10))?;
    ensure!(finished.code != Some(0), "it left as if all was well: {finished:?}");
    drop(lock);
    case.once_and_same(&TABLES)?;
    case.pass()
}
