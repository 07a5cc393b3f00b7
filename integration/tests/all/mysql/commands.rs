//! `status`, `verify`, `check`, `drop`, and how a running calve is asked to leave.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use calve_integration::binary::PATIENCE;
use calve_integration::pipeline::until;
use calve_integration::sql::Sql;
use calve_testkit::servers::{Kind, Options, REPLICATION_USER, Server};
use serde_json::Value;

use super::{BinlogCase, numbers, on_every_server, on_every_version};

const TABLES: [&str; 2] = ["orders", "items"];

fn shop() -> String {
    format!(
        "create table orders (id int primary key, v varchar(40), amount decimal(9, 2));
         create table items (id int, line varchar(5) character set latin1, v text, primary key (id, line));
         insert into orders select i, concat('v', i), i from {};
         insert into items select i, l, 'x' from {}, (select 'a' l union select 'b' union select '\u{e9}') as lines_;",
        numbers(1, 300),
        numbers(1, 100)
    )
}

fn table<'a>(status: &'a Value, name: &str) -> &'a Value {
    let tables = status["tables"].as_array().map(Vec::as_slice).unwrap_or_default();
    tables.iter().find(|table| table["table"] == name).unwrap_or(&Value::Null)
}

fn status_tells_the_same_with_and_without_a_running_calve(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "status", &shop(), &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    case.sql.run("update orders set v = 'x' where id < 50; delete from items where line = 'b'")?;
    case.await_same(&TABLES)?;
    let live = case.pipeline.status()?;
    ensure!(live["running"] == true && live["process"] == calve.id(), "{live}");
    let readable = case.pipeline.finish(&["status"])?.expect_success()?;
    for word in [&case.name("orders"), &case.name("items"), "streaming"] {
        ensure!(readable.stdout.contains(word), "{}", readable.stdout);
    }
    ensure!(!readable.stdout.contains("slot"), "MySQL has no slots: {}", readable.stdout);
    calve.terminate()?;
    let rest = case.pipeline.status()?;
    ensure!(rest["running"] == false, "{rest}");
    for status in [&live, &rest] {
        ensure!(status["format"] == 1 && status["pipeline"] == case.pipeline.name(), "{status}");
        ensure!(status["source"]["reachable"] == true, "{status}");
        for (name, rows) in [("orders", 300), ("items", 200)] {
            let table = table(status, &case.name(name));
            ensure!(table["state"] == "streaming", "{status}");
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

fn verify_names_the_keys_that_differ(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "verify", &shop(), &TABLES)?;
    case.once_and_same(&TABLES)?;
    let (orders, items) = (case.name("orders"), case.name("items"));
    let equal = case.pipeline.finish(&["verify"])?.expect_success()?;
    ensure!(equal.stdout.contains(&format!("{orders}: equal, 300 rows")), "{}", equal.stdout);
    // The table stays as it is while the source moves on, and nobody runs to catch up.
    case.sql.run("update orders set amount = amount + 1 where id = 7; delete from orders where id = 8; insert into orders values (1000, 'x', 1)")?;
    let differs = case.pipeline.finish(&["verify", "--wait", "1"])?.expect_code(7)?;
    for key in ["7", "8", "1000", &format!("{orders}: 3 keys differ"), &format!("{items}: equal")] {
        ensure!(differs.stdout.contains(key), "verify does not say {key}:\n{}", differs.stdout);
    }
    case.once_and_same(&TABLES)?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

fn verify_is_right_under_write_load(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "verify_load", &shop(), &TABLES)?;
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    let url = case.database.url(server.kind().superuser())?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| -> anyhow::Result<()> {
            let mut sql = Sql::connect(&url)?;
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                sql.run(&format!(
                    "update orders set amount = {n} where id % 10 = {0}; delete from items where id = {1};
                     insert ignore into items values ({1}, 'a', '{n}'), ({1}, 'b', '{n}')",
                    n % 10,
                    n % 100
                ))?;
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        });
        let verified = (0..2).try_for_each(|_| case.pipeline.finish(&["verify"])?.expect_success().map(drop));
        stop.store(true, Ordering::Relaxed);
        load.join().expect("the load does not panic")?;
        verified
    })?;
    case.await_same(&TABLES)?;
    calve.terminate()?;
    case.pass()
}

fn a_signal_finishes_the_checkpoint_and_leaves(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "signals", &shop(), &TABLES)?;
    let name = case.name("orders");
    for signal in ["TERM", "INT"] {
        // Without the signal nothing would be committed for an hour.
        let calve = case.pipeline.clone().checkpoint("interval", "1h").start()?;
        case.pipeline.await_state(&name, "streaming")?;
        case.sql.run(&format!("update orders set v = '{signal}'; delete from items where id < 10; insert into items values (1, 'a', '{signal}')"))?;
        // The server has no word for what it has sent; it sends at once.
        std::thread::sleep(Duration::from_millis(1500));
        calve.signal(signal)?;
        calve.wait(PATIENCE)?.expect_success()?;
        case.same(&TABLES)?;
    }
    case.pass()
}

fn drop_removes_what_it_says(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "drop", &shop(), &TABLES)?;
    case.once_and_same(&TABLES)?;
    case.pipeline.finish(&["drop", "--yes"])?.expect_success()?;
    ensure!(!case.lake().positions(case.pipeline.name()).exists(), "local state is left");
    case.same(&TABLES)?;
    case.sql.run("update orders set v = 'later'")?;
    // Taken up again, by the same name.
    case.once_and_same(&TABLES)?;
    case.pipeline.finish(&["drop", "--yes", "--tables"])?.expect_success()?;
    ensure!(case.lake().table(case.database.name(), "orders").is_err(), "the table is left");
    case.once_and_same(&TABLES)?;
    case.pass()
}

fn check_is_content_with_a_source_that_is_ready(server: &Server) -> anyhow::Result<()> {
    let case = BinlogCase::on(server, "check", &shop(), &TABLES)?;
    let check = case.pipeline.finish(&["check"])?.expect_success()?;
    ensure!(check.stdout.contains("ready: 2 tables"), "{}", check.stdout);
    case.pass()
}

on_every_server!(
    status_tells_the_same_with_and_without_a_running_calve,
    verify_names_the_keys_that_differ,
    verify_is_right_under_write_load,
    a_signal_finishes_the_checkpoint_and_leaves,
    drop_removes_what_it_says,
    check_is_content_with_a_source_that_is_ready,
);

fn check_names_everything_about_the_server(kind: Kind, version: &str) -> anyhow::Result<()> {
    let options = Options::default().set("binlog_format", "STATEMENT").set("binlog_row_image", "MINIMAL");
    let server = Server::start(kind, version, &options)?;
    let schema =
        format!("{} create table keyless (v int); create table isam (id int primary key) engine = MyISAM;", shop());
    let mut case = BinlogCase::on(&server, "server", &schema, &["*"])?;
    case.database.sql("create user poor@'%' identified by 'poor'; grant select on *.* to poor@'%'")?;
    let url = case.database.url("poor")?;
    let rich = case.database.url(REPLICATION_USER)?;
    case.pipeline = case.pipeline.clone().source(&url);
    let check = case.pipeline.finish(&["check"])?;
    let said = format!("{}{}", check.stdout, check.stderr);
    ensure!(check.code == Some(2), "{said}");
    for part in ["REPLICATION SLAVE", "GRANT", "binlog_format", "binlog_row_image"] {
        ensure!(said.contains(part), "check does not speak of {part}:\n{said}");
    }
    case.pipeline = case.pipeline.clone().source(&rich);
    case.follow(&["keyless", "isam"]);
    let check = case.pipeline.finish(&["check"])?;
    let said = format!("{}{}", check.stdout, check.stderr);
    for part in ["keyless", "ADD PRIMARY KEY", "isam", "InnoDB"] {
        ensure!(said.contains(part), "check does not speak of {part}:\n{said}");
    }
    case.pass()
}

/// Two replicas with one number: the server serves one of them, and the other one says so.
fn a_server_id_that_is_taken_is_named(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default())?;
    let mut case = BinlogCase::on(&server, "taken", &shop(), &TABLES)?;
    let own = server.sql("mysql", "select @@server_id")?;
    let same = case.pipeline.clone().with(&format!("server_id: {}", own.trim()));
    let check = same.finish(&["check"])?;
    let said = format!("{}{}", check.stdout, check.stderr);
    ensure!(check.code == Some(2) && said.contains("server_id"), "{said}");
    // A number given by hand is used.
    case.pipeline = case.pipeline.clone().with("server_id: 4711");
    let calve = case.pipeline.start()?;
    case.await_same(&TABLES)?;
    let replicas = if kind == Kind::MySql { "show replicas" } else { "show slave hosts" };
    until("the server to list calve", || {
        Ok(case.sql.rows(replicas)?.iter().any(|row| row[0].as_deref() == Some("4711")))
    })?;
    calve.terminate()?;
    case.pass()
}

on_every_version!(check_names_everything_about_the_server, a_server_id_that_is_taken_is_named);
