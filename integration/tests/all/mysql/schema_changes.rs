//! Tables that are altered and go on: rows before and after, while calve runs, while it is away, and when it is killed between.

use anyhow::{Context, ensure};
use calve_integration::compare::{Differences, Pair, SourceRows};
use calve_integration::pipeline::until;
use calve_integration::readers;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Options, Server};

use super::{BinlogCase, numbers, on_every_server, on_every_version};

/// The table as it begins, and one beside it that nobody alters.
fn tables() -> String {
    let columns = "id int primary key, v varchar(100), n int, e enum('a','b'), gone text, x decimal(8,2)";
    format!(
        "create table t ({columns}) character set utf8mb4;
         insert into t select i, concat('v', i), i, 'a', 'old', i / 3 from {};
         create table good (id int primary key, v varchar(100)); insert into good values (1, 'x');",
        numbers(1, 30)
    )
}

/// What is done to the table, step by step, and the rows that are written then. `{n}` is the step.
const STEPS: &[(&str, &str)] = &[
    (
        "alter table t add w varchar(20)",
        "update t set w = 'w{n}' where id = 2; insert into t (id, w) values (100 + {n}, 'ü')",
    ),
    ("alter table t drop gone", "update t set v = 'without' where id = 3; insert into t (id, n) values (100 + {n}, 7)"),
    ("alter table t change v title varchar(100)", "update t set title = 'renamed' where id = 4"),
    ("alter table t modify n bigint", "update t set n = 5000000000 where id in (5, 6)"),
    ("alter table t modify e enum('a','b','c d')", "update t set e = 'c d' where id = 7; delete from t where id = 8"),
    (
        "alter table t add front date first, add between_ json after id",
        "update t set front = '2024-02-29', between_ = '[1]' where id = 9",
    ),
    ("alter table t modify title varchar(300) after n", "update t set title = repeat('é', 300) where id = 10"),
    // A name that was another column's.
    ("alter table t add gone int", "update t set gone = {n} where id = 11"),
    ("alter table t modify x decimal(20,2)", "update t set x = 123456789012345678.25 where id = 12"),
    (
        "alter table t add p timestamp(3) null, drop w, change front back date, modify n bigint after back",
        "update t set p = '2024-01-01 00:00:00.5' where id = 13; update t set back = null where id = 9",
    ),
    (
        "alter table t rename column gone to gone2, rename column x to gone",
        "update t set gone = 1.5, gone2 = 7 where id = 17",
    ),
    ("alter table t default character set latin1", "update t set title = 'after' where id = 14"),
    ("alter table t add l varchar(10), add index (l), comment 'latin'", "update t set l = 'grün' where id = 15"),
    ("/*!50503 alter table t add in_a_comment int */", "update t set in_a_comment = 1 where id = 16"),
    (
        "alter table t drop column in_a_comment, add column in_a_comment bigint",
        "update t set in_a_comment = 2 where id = 16",
    ),
];

fn step(n: usize) -> String {
    let (alter, write) = STEPS[n];
    format!("{alter}; {}; update good set v = 'beside {n}'", write.replace("{n}", &n.to_string()))
}

/// Fails unless the columns of the source have the same values in the lake, where those that were dropped are left.
fn same(case: &mut BinlogCase, table: &str) -> anyhow::Result<()> {
    let differences = differences(case, table)?;
    ensure!(differences.is_empty(), "{table}: {differences}");
    Ok(())
}

fn differences(case: &mut BinlogCase, table: &str) -> anyhow::Result<Differences> {
    let pair = Pair::named(&case.name(table));
    let source = SourceRows::read(&mut case.sql, &pair)?;
    let columns: Vec<String> = source.columns.iter().map(|column| format!("\"{column}\"")).collect();
    let in_lake = pair.table(case.lake())?;
    let query = format!("select {} from t", columns.join(", "));
    let read = readers::duckdb(|duckdb| Ok(duckdb.query_table(&in_lake, &query)?))?;
    Ok(Differences::between(&source, &read.rows))
}

fn await_same(case: &mut BinlogCase, table: &str) -> anyhow::Result<()> {
    let mut last = String::new();
    let waited = until("the table to equal its source", || {
        let found = differences(case, table);
        last = format!("{found:?}");
        Ok(found.is_ok_and(|found| found.is_empty()))
    });
    waited.map_err(|error| error.context(last))
}

/// The table streams, and its columns have the numbers that they have by the steps.
fn followed(case: &BinlogCase) -> anyhow::Result<()> {
    let state = case.pipeline.state(&case.name("t"))?;
    ensure!(state.state == "streaming", "{state:?}");
    let metadata = case.lake().metadata(case.database.name(), "t")?;
    let present = &metadata.json()["current-schema-id"];
    let schemas = metadata.json()["schemas"].as_array().context("schemas are listed")?;
    let schema =
        schemas.iter().find(|schema| schema["schema-id"] == *present).context("one of them is the present one")?;
    let columns = schema["fields"].as_array().context("fields are listed")?;
    let id_of =
        |name: &str| columns.iter().find(|column| column["name"] == name).and_then(|column| column["id"].as_i64());
    // As they began, whatever they are called now; what came later has later numbers, under old names too.
    for (name, id) in [("id", 1), ("title", 2), ("n", 3), ("e", 4), ("gone", 6)] {
        ensure!(id_of(name) == Some(id), "{name} is not number {id} in {columns:?}");
    }
    ensure!(id_of("gone2").is_some_and(|id| id > 6) && id_of("w") == Some(7), "{columns:?}");
    Ok(())
}

/// Each step is seen before the next one is done.
fn altered_while_rows_flow(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "altered", &tables(), &["t", "good"])?;
    let calve = case.pipeline.start()?;
    await_same(&mut case, "t")?;
    for n in 0..STEPS.len() {
        case.sql.run(&step(n))?;
        await_same(&mut case, "t").map_err(|error| error.context(step(n)))?;
    }
    case.await_same(&["good"])?;
    followed(&case)?;
    calve.terminate()?;
    case.pipeline.finish(&["verify"])?.expect_success()?;
    case.pass()
}

/// All of it lies in one stretch of the log.
fn altered_while_away(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "away", &tables(), &["t", "good"])?;
    case.pipeline.once()?;
    for n in 0..STEPS.len() {
        case.sql.run(&step(n))?;
    }
    case.pipeline.once()?;
    same(&mut case, "t")?;
    case.same(&["good"])?;
    followed(&case)?;
    case.pass()
}

/// Killed at any moment, it goes on from where the lake is: what the table has already is not done to it again.
fn altered_and_killed(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "killed", &tables(), &["t", "good"])?;
    case.pipeline = case.pipeline.clone().checkpoint("interval", "50ms");
    case.pipeline.once()?;
    let steps: Vec<usize> = (0..STEPS.len()).collect();
    for (round, steps) in (0_u64..).zip(steps.chunks(4)) {
        let calve = case.pipeline.start()?;
        for n in steps {
            case.sql.run(&step(*n))?;
        }
        std::thread::sleep(std::time::Duration::from_millis(40 * round));
        calve.kill()?;
        case.sql
            .run(&format!("update t set n = coalesce(n, 0) + 1 where id < 20; update good set v = 'killed {round}'"))?;
    }
    case.pipeline.once()?;
    same(&mut case, "t")?;
    case.same(&["good"])?;
    followed(&case)?;
    case.pass()
}

on_every_server!(altered_while_rows_flow, altered_while_away, altered_and_killed);

/// The log says what its columns are, and is held to it.
fn altered_with_full_metadata(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default().set("binlog_row_metadata", "FULL"))?;
    altered_while_away(&server)?;
    altered_and_killed(&server)
}

on_every_version!(altered_with_full_metadata);
