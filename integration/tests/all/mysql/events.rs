//! What the log can hold beside plain rows: compressed transactions, partial documents, very long rows and transactions; its
//! files change, and its server goes away and comes back.

use std::time::Duration;

use anyhow::ensure;
use calve_integration::binary::Finished;
use calve_integration::readers;
use calve_integration::sql::Sql;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Options, Server, Stop};

use super::{BinlogCase, numbers, on_every_server, on_every_version};

fn rows() -> String {
    format!(
        "create table t (id int primary key, v text); insert into t select i, concat('old ', i) from {};
         create table u (id int primary key, v text, n int); create table unfollowed (id int auto_increment primary key, v text);",
        numbers(1, 40)
    )
}

fn changes(tag: &str) -> String {
    format!(
        "begin; insert into t select i, repeat('{tag} ', 200) from {}; update t set v = concat(v, '{tag}') where id % 3 = 0;
                insert into u select id, v, 1 from t where id > 950 on duplicate key update v = '{tag}', n = n + 1;
                delete from t where id > 900 and id % 2 = 0; update t set id = id - 5000 where id > 900; commit;
         delete from t where id < 0; insert into t values (7, '{tag}') on duplicate key update v = '{tag}';
         insert into unfollowed (v) select repeat('x', 500) from {}",
        numbers(901, 1000),
        numbers(1, 50)
    )
}

fn compressed_transactions_are_unpacked(kind: Kind, version: &str) -> anyhow::Result<()> {
    let options = match kind {
        Kind::MariaDb => Options::default().set("log_bin_compress", "ON").set("log_bin_compress_min_len", "10"),
        _ => Options::default(),
    };
    let server = Server::start(kind, version, &options)?;
    let mut case = BinlogCase::on(&server, "compressed", &rows(), &["t", "u"])?;
    case.once_and_same(&["t", "u"])?;
    for round in 0..3 {
        if kind == Kind::MySql {
            // Some of them compressed, some not, in one log.
            case.sql.run(&format!("set session binlog_transaction_compression = {}", ["ON", "OFF"][round % 2]))?;
        }
        case.sql.run(&changes(&format!("round {round}")))?;
    }
    case.once_and_same(&["t", "u"])?;
    let calve = case.pipeline.start()?;
    for round in 3..6 {
        case.sql.run(&changes(&format!("round {round}")))?;
        case.await_same(&["t", "u"])?;
    }
    calve.terminate()?;
    // That it was compressed at all.
    let seen = if kind == Kind::MariaDb {
        // Rows as they are would be longer than all of the log.
        let log = server.sql("mysql", "show master status")?;
        let bytes: u64 = log.split('\t').nth(1).and_then(|text| text.parse().ok()).unwrap_or_default();
        bytes < 400_000
    } else {
        let asked = "select count(*) from performance_schema.binary_log_transaction_compression_stats \
                     where compression_type = 'ZSTD' and transaction_counter > 0";
        server.sql("mysql", asked)?.trim() != "0"
    };
    ensure!(seen, "nothing was compressed");
    case.pass()
}

on_every_version!(compressed_transactions_are_unpacked);

/// Changes of documents that the log has as differences.
#[test]
fn partial_documents_are_put_together() -> anyhow::Result<()> {
    let server = Server::shared(Kind::MySql, "9")?;
    let schema = "
        create table docs (id int primary key, doc json, other json, v int);
        insert into docs values
            (1, '{\"name\": \"calve\", \"tags\": [\"a\", \"b\", \"c\"], \"n\": {\"deep\": [1, 2, {\"x\": 1.5}]}, \"pad\": \"\"}', '[1, 2, 3]', 0),
            (2, '{\"name\": \"long\", \"tags\": [], \"n\": {\"deep\": [1, 2, 3]}, \"pad\": \"\"}', null, 0),
            (3, null, '{\"a\": 1}', 0);
        update docs set doc = json_set(doc, '$.pad', repeat('x', 30000)) where id < 3;";
    let mut case = BinlogCase::on(&server, "partial", schema, &["docs"])?;
    case.once_and_same(&["docs"])?;
    let changes = "
        update docs set doc = json_set(doc, '$.name', 'c') where id = 1;
        update docs set doc = json_replace(doc, '$.n.deep[2].x', 2.25, '$.tags[0]', 'z'), v = v + 1 where id = 1;
        update docs set doc = json_remove(doc, '$.tags[1]'), other = json_set(other, '$[1]', 9) where id = 1;
        update docs set doc = json_set(doc, '$.added', cast('[true, null]' as json)) where id = 1;
        update docs set doc = json_array_insert(doc, '$.tags[0]', 'first'), other = json_array_append(other, '$', '\u{1f600}') where id = 1;
        update docs set doc = json_array_append(doc, '$.tags', 'last'), v = 5 where id = 2;
        update docs set doc = json_remove(doc, '$.pad') where id = 2;
        update docs set doc = json_set(doc, '$.name', 'twice', '$.n.deep[0]', 1e10), other = '{\"whole\": 1}' where id = 2;
        update docs set other = json_set(other, '$.a', json_object('b', 'c')) where id = 3;
        update docs set id = id + 10, doc = json_set(doc, '$.name', 'moved') where id = 2;
        update docs set v = 9; update docs set doc = null where id = 12; delete from docs where id = 3;";
    case.sql.run(&format!("set session binlog_row_value_options = 'PARTIAL_JSON'; {changes}"))?;
    case.once_and_same(&["docs"])?;
    case.sql.run(
        "set session binlog_transaction_compression = ON;
         update docs set doc = json_set(doc, '$.name', 'packed'), other = json_set(other, '$[0]', 'packed') where id = 1",
    )?;
    case.once_and_same(&["docs"])?;
    case.pass()
}

/// Rows that the log does not have whole, or not as rows: their table stops and says so, others go on.
fn changes_that_are_not_whole_rows_stop_their_table(server: &Server) -> anyhow::Result<()> {
    let schema = "
        create table good (id int primary key, v text); create table minimal (id int primary key, a text, b text);
        create table statement (id int primary key, v text);
        insert into minimal values (1, 'a', 'b'), (2, 'a', 'b'); insert into statement values (1, 'a'); insert into good values (1, 'a');";
    let mut case = BinlogCase::on(server, "image", schema, &["good", "minimal", "statement"])?;
    case.once_and_same(&["good", "minimal", "statement"])?;
    case.sql.run(
        "set session binlog_row_image = 'MINIMAL'; update minimal set b = 'changed' where id = 1;
         set session binlog_row_image = 'FULL'; update good set v = 'followed';
         set session binlog_format = 'STATEMENT'; insert into statement values (2, 'lost'); set session binlog_format = 'ROW'",
    )?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["good"])?;
    case.stopped("minimal", &["binlog_row_image", "reload"])?;
    case.stopped("statement", &["binlog_format", "reload"])?;
    case.reload(&["minimal", "statement"])?;
    case.sql.run("update minimal set a = 'x'; insert into statement values (3, 'seen')")?;
    case.once_and_same(&["good", "minimal", "statement"])?;
    case.pass()
}

/// A hundred thousand rows in one transaction, and calve dies in the middle of it.
fn a_long_transaction_that_is_killed_midway_starts_again(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "long", &rows(), &["t", "u"])?;
    case.pipeline = case.pipeline.clone().checkpoint("rows", "20000");
    case.once_and_same(&["t", "u"])?;
    case.sql.run(&format!(
        "begin; insert into u values (1, 'first', 0); insert into t select 100000 + i + k * 10000, 'long' from {}, {};
         update t set v = 'again' where id % 10 = 0; delete from t where id % 7 = 0; insert into u values (2, 'last', 0); commit",
        numbers(0, 9999),
        "(select 0 k union select 1 union select 2 union select 3 union select 4 union select 5 union select 6 union select 7 \
          union select 8 union select 9) tens"
    ))?;
    for place in ["writer.write.after:2", "lake.commit.after:2"] {
        case.pipeline.dies_at(place, &["run"])?;
    }
    case.once_and_same(&["t", "u"])?;
    case.pass()
}

on_every_server!(
    changes_that_are_not_whole_rows_stop_their_table,
    a_long_transaction_that_is_killed_midway_starts_again
);

/// The log's file changes, the server is stopped, killed and started again, while calve runs and while it does not.
fn the_log_goes_on_in_other_files_and_after_restarts(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default())?;
    let mut case = BinlogCase::on(&server, "rotation", &rows(), &["t", "u"])?;
    let url = case.database.url(kind.superuser())?;
    case.once_and_same(&["t", "u"])?;
    // Away, and files begin and end meanwhile, one of them without a row in it.
    case.sql.run("flush binary logs; update t set v = 'in the second file'; flush logs; flush binary logs")?;
    case.once_and_same(&["t", "u"])?;
    case.sql.run("flush binary logs; flush binary logs")?;
    case.once_and_same(&["t", "u"])?;

    let mut calve = case.pipeline.start()?;
    case.sql.run("set global max_binlog_size = 4096")?;
    for round in 0..4 {
        case.sql.run(&changes(&format!("file {round}")))?;
        case.sql.run("flush tables; flush logs; flush binary logs")?;
    }
    case.await_same(&["t", "u"])?;
    for how in [Stop::Fast, Stop::Kill] {
        case.sql.run(&format!("update t set v = 'before {how:?}'"))?;
        server.restart(how, &Options::default())?;
        case.sql = Sql::connect_patiently(&url, Duration::from_secs(30))?;
        case.sql.run(&changes(&format!("after {how:?}")))?;
        case.await_same(&["t", "u"])?;
        ensure!(calve.ended()?.is_none(), "calve did not outlive the restart");
    }
    // Both away at the same time.
    calve.terminate()?;
    case.sql.run(&changes("away"))?;
    server.restart(Stop::Kill, &Options::default())?;
    case.sql = Sql::connect_patiently(&url, Duration::from_secs(30))?;
    case.sql.run("update u set n = -1")?;
    case.once_and_same(&["t", "u"])?;
    case.pass()
}

/// An event that is larger than a checkpoint may be takes what it needs, and is told of once. Others are not.
fn an_event_larger_than_a_checkpoint_passes_and_is_told_of(server: &Server) -> anyhow::Result<()> {
    let schema = "create table t (id int primary key, v longtext); create table other (id int primary key, v longtext);
                  insert into t values (1, repeat('loaded', 500000));";
    let mut case = BinlogCase::on(server, "ceiling", schema, &["t"])?;
    case.pipeline = case.pipeline.clone().checkpoint("bytes", "1MiB");
    let loaded = case.pipeline.once()?;
    case.same(&["t"])?;
    let told = |finished: &Finished| -> Vec<String> {
        let lines = finished.stderr.lines().filter(|line| line.contains("larger than checkpoint.bytes"));
        lines.map(str::to_owned).collect()
    };
    ensure!(told(&loaded).is_empty(), "{:?}", told(&loaded));
    case.sql.run(
        "insert into t values (2, repeat('small', 100)); insert into t values (3, repeat('x', 3000000));
         insert into t select 10 + id, repeat('y', 900000) from t",
    )?;
    let streamed = case.pipeline.once()?;
    case.same(&["t"])?;
    let lines = told(&streamed);
    // The server itself begins another event after some rows.
    ensure!(lines.len() == 1, "told of {} events: {lines:?}", lines.len());
    let (name, line) = (case.name("t"), &lines[0]);
    let json: serde_json::Value = serde_json::from_str(line)?;
    let field = |name: &str| json["fields"].get(name).or(json.get(name)).cloned().unwrap_or_default();
    ensure!(field("level") == "WARN" || json["level"] == "WARN", "{line}");
    ensure!(field("table") == name.as_str() && field("checkpoint.bytes") == 1 << 20, "{line}");
    ensure!(field("bytes").as_u64().is_some_and(|bytes| (3_000_000..3_001_000).contains(&bytes)), "{line}");
    // One that nobody follows has to pass all the same, and so has one that is compressed.
    case.sql.run("insert into other values (1, repeat('x', 2000000))")?;
    let compressed = if server.kind() == Kind::MySql { "set binlog_transaction_compression = ON;" } else { "" };
    case.sql.run(&format!("{compressed} insert into t values (4, repeat('z', 4000000))"))?;
    let lines = told(&case.pipeline.once()?);
    case.same(&["t"])?;
    ensure!(lines.len() == 2 && lines[0].contains(&case.name("other")) && lines[1].contains(&name), "{lines:?}");
    case.pass()
}

on_every_server!(an_event_larger_than_a_checkpoint_passes_and_is_told_of);

/// Forty megabytes in one value, by load and by stream.
fn a_row_of_forty_megabytes_passes(kind: Kind, version: &str) -> anyhow::Result<()> {
    let options = Options::default().set("max_allowed_packet", "128M").set("innodb_buffer_pool_size", "128M");
    let server = Server::start(kind, version, &options)?;
    let long = |salt: &str| format!("repeat(sha2('{salt}', 512), 320000)");
    let schema = format!(
        "create table big (id int primary key, v longtext, n int); insert into big values (1, {}, 0)",
        long("load")
    );
    let mut case = BinlogCase::on(&server, "big", &schema, &["big"])?;
    case.pipeline.once()?;
    case.sql.run(&format!(
        "insert into big values (2, {}, 0); update big set n = n + 1; delete from big where id = 1",
        long("stream")
    ))?;
    case.pipeline.once()?;
    let expected = case.sql.rows("select id, n, length(v), sha2(v, 256) from big order by id")?;
    let table = case.lake().table(case.database.name(), "big")?;
    let query = "select id, n, length(v), sha256(v) from t order by id";
    let found = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, query)?))?;
    ensure!(found.rows == expected, "{:?} is not {expected:?}", found.rows);
    ensure!(found.rows.len() == 1 && found.rows[0][2].as_deref() == Some("40960000"), "{:?}", found.rows);
    case.pass()
}

on_every_version!(the_log_goes_on_in_other_files_and_after_restarts, a_row_of_forty_megabytes_passes);
