//! Statements that define things: those that matter stop just their table, and the way back is to read it again; all others
//! are passed over.

use anyhow::ensure;
use calve_testkit::servers::{Kind, Server};

use super::{BinlogCase, numbers, on_every_server};

fn rows(table: &str) -> String {
    format!(
        "create table {table} (id int primary key, v varchar(100)); insert into {table} select i, concat('v', i) from {};",
        numbers(1, 30)
    )
}

/// Nothing here changes a row of `t` or the way its rows are written. `{db}` is the case's database.
const IGNORED: &[(Option<Kind>, &str)] = &[
    (None, "alter table t add index i_v (v)"),
    (None, "alter table t rename index i_v to i_w, comment = 'it''s a table'"),
    (None, "create index i_x on t (v desc)"),
    (None, "drop index i_x on t"),
    (None, "/*!50503 alter table t add index i_y (v) */"),
    (None, "-- a comment\nalter table t /* inside */ drop index i_y"),
    (None, "alter table t alter column v set default 'x'"),
    (None, "alter table t auto_increment = 1000"),
    (None, "alter table t engine = InnoDB"),
    (None, "alter table t add constraint c_v check (v <> 'never'), add unique key u_v (v, id)"),
    (None, "analyze table t"),
    (None, "optimize table t"),
    (None, "flush tables t"),
    (None, "create table other (id int primary key, t int)"),
    (None, "alter table other add column t2 int, drop column t"),
    (None, "rename table other to other2"),
    (None, "create table ` t` like t"),
    (None, "create table if not exists t (something varchar(7))"),
    (None, "drop table if exists other2, `no such table`"),
    (None, "create view shown as select * from t"),
    (None, "drop view shown"),
    (None, "create trigger before_t before insert on t for each row set new.v = coalesce(new.v, 'by trigger')"),
    (None, "create procedure talk() begin /* alter table t drop column v */ select 'drop table t'; end"),
    (None, "create function one() returns int deterministic return 1"),
    (None, "drop procedure talk"),
    (None, "create event nightly on schedule every 1 day do truncate table other"),
    (None, "alter event nightly disable"),
    (None, "create user '{db}'@'%' identified by 'x'"),
    (None, "alter user '{db}'@'%' identified by 'y'"),
    (None, "grant select on {db}.t to '{db}'@'%'"),
    (Some(Kind::MySql), "set password for '{db}'@'%' = 'z'"),
    (Some(Kind::MariaDb), "set password for '{db}'@'%' = password('z')"),
    (None, "drop user '{db}'@'%'"),
    (None, "create temporary table t (x int); insert into t values (1); drop temporary table t"),
    (None, "create database {db}_b; create table {db}_b.t (x int); drop table {db}_b.t; drop database {db}_b"),
    (None, "alter database {db} character set latin1"),
    (Some(Kind::MySql), "set password for root@'%' = 'root'"),
    (Some(Kind::MySql), "alter table t alter index i_w invisible"),
    (Some(Kind::MySql), "create role '{db}_r'; drop role '{db}_r'"),
    (Some(Kind::MySql), "/*!80000 alter table t comment 'versioned' */"),
    (Some(Kind::MySql), "alter table t add index i_f ((upper(v)))"),
    (Some(Kind::MariaDb), "set password for root@'%' = password('root')"),
    (Some(Kind::MariaDb), "alter table t add index if not exists i_w (v)"),
    (Some(Kind::MariaDb), "create or replace view shown as select * from t"),
    (Some(Kind::MariaDb), "create sequence s; select nextval(s); drop sequence s"),
    (Some(Kind::MariaDb), "/*M!100100 alter table t comment = 'versioned' */"),
    (Some(Kind::MariaDb), "alter table other3 add column if not exists a int"),
    (Some(Kind::MariaDb), "set statement lock_wait_timeout = 5 for alter table t comment = 'waits'"),
    (Some(Kind::MariaDb), "alter online table t add index if not exists i_o (v)"),
];

fn statements_that_change_no_row_are_passed_over(server: &Server) -> anyhow::Result<()> {
    let schema = format!("{} create table other3 (id int primary key);", rows("t"));
    let mut case = BinlogCase::on(server, "ignored", &schema, &["t"])?;
    let calve = case.pipeline.start()?;
    case.await_same(&["t"])?;
    let db = case.database.name().to_owned();
    let ours = IGNORED.iter().filter(|(only, _)| only.is_none_or(|only| only == server.kind()));
    for (n, (_, statement)) in ours.enumerate() {
        case.sql.run(&statement.replace("{db}", &db))?;
        case.sql.run(&format!(
            "insert into t values ({}, 'after {n}'); update t set v = concat('then ', {n}) where id = 3",
            1000 + n
        ))?;
    }
    let finished = case.await_same(&["t"]);
    let state = case.pipeline.state(&case.name("t"))?;
    ensure!(state.state == "streaming", "{state:?}");
    finished?;
    calve.terminate()?;
    case.pass()
}

/// Statements upon a table of their own. What is left of it is followed again once it is read again, where anything is left.
const STOPPING: &[(Option<Kind>, &str, &str)] = &[
    (None, "added", "alter table {t} add column more int default 7"),
    (None, "added_first", "alter table {t} add more int not null first"),
    (None, "widened", "alter table {t} modify id bigint"),
    (None, "retyped", "alter table {t} modify v varbinary(200)"),
    (None, "unsigned_", "alter table {t} modify id int unsigned"),
    (None, "rekeyed", "alter table {t} drop primary key, add primary key (v)"),
    (None, "converted", "alter table {t} convert to character set ucs2"),
    (None, "dropped", "drop table {t}"),
    (None, "renamed", "rename table {t} to {t}_elsewhere"),
    (None, "renamed_by_alter", "alter table {t} rename to {t}_away"),
    (
        None,
        "made_anew",
        "drop table {t}; create table {t} (id int primary key, v varchar(100)); insert into {t} values (5, 'new')",
    ),
    (None, "in_a_comment", "/*!50503 alter table {t} add column more int not null */"),
    (None, "shortened", "alter table {t} modify v varchar(50)"),
    (None, "timed", "alter table {t} add at_ datetime default current_timestamp"),
    (None, "counted", "alter table {t} add n bigint auto_increment unique"),
    (None, "to_myisam", "alter table {t} engine = MyISAM; alter table {t} engine = InnoDB"),
    (Some(Kind::MariaDb), "in_marias_comment", "/*M!100100 alter table {t} add column more int default 5 */"),
    (
        Some(Kind::MariaDb),
        "or_replace",
        "create or replace table {t} (id int primary key, w text); insert into {t} values (1, 'new')",
    ),
    (Some(Kind::MySql), "enum_", "alter table {t} modify v enum('v1', 'v2') null; insert into {t} values (99, 'v2')"),
];

/// What is no table afterwards.
const GONE: [&str; 3] = ["dropped", "renamed", "renamed_by_alter"];

fn a_statement_that_matters_stops_just_its_table(server: &Server) -> anyhow::Result<()> {
    let ours: Vec<_> = STOPPING.iter().filter(|(only, ..)| only.is_none_or(|only| only == server.kind())).collect();
    let schema: String = ours.iter().map(|(_, table, _)| rows(table)).chain([rows("good")]).collect();
    let mut tables: Vec<&str> = ours.iter().map(|(_, table, _)| *table).collect();
    tables.push("good");
    let mut case = BinlogCase::on(server, "stopping", &schema, &tables)?;
    case.sql.run("set session sql_mode = ''")?;
    case.once_and_same(&["good", "added"])?;
    for (_, table, statement) in &ours {
        // Rows before it, in the old form, and rows after it, in the new one.
        case.sql.run(&format!("insert into {table} (id) values (77)"))?;
        case.sql.run(&statement.replace("{t}", table))?;
        if !GONE.contains(table) {
            case.sql.run(&format!("update {table} set id = id + 1000 where id = 5"))?;
        }
        case.sql.run(&format!("update good set v = 'beside {table}' where id = 7"))?;
    }
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["good"])?;
    for (_, table, _) in &ours {
        case.stopped(table, &["reload"])?;
    }
    // Stopped they stay, however often it starts, and the others go on.
    case.sql.run("update good set v = 'again'")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["good"])?;
    let left: Vec<&str> = tables.iter().copied().filter(|table| !GONE.contains(table)).collect();
    // Those that are no table any more leave the configuration, and nothing follows them from then on.
    case.follow(&left);
    let back: Vec<&str> = left.iter().copied().filter(|table| *table != "good").collect();
    case.reload(&back)?;
    case.pipeline.once()?;
    case.sql.run("update widened set id = id + 5000000000 where id = 3; delete from rekeyed where id = 4; update added set more = 8")?;
    case.sql.run("update added_first set more = 9 where id = 6")?;
    case.once_and_same(&left)?;
    case.pass()
}

/// What empties or swaps partitions leaves no row in the log.
fn partitions_that_are_emptied_or_exchanged_stop_their_table(server: &Server) -> anyhow::Result<()> {
    let cases = [
        ("truncated", "alter table truncated truncate partition p1"),
        ("dropped", "alter table dropped drop partition p0"),
        ("exchanged", "alter table exchanged exchange partition p1 with table plain"),
        ("added", "alter table added add partition (partition p3 values less than (4000))"),
        (
            "reorganized",
            "alter table reorganized reorganize partition p0 into (partition a values less than (5), partition b values less than (10))",
        ),
    ];
    let mut schema = "create table plain (id int primary key, v int); insert into plain values (12, 12);".to_owned();
    for (table, _) in cases {
        schema += &format!(
            "create table {table} (id int primary key, v int) partition by range (id)
                 (partition p0 values less than (10), partition p1 values less than (20), partition p2 values less than (3000));
             insert into {table} select i, i from {};",
            numbers(1, 40)
        );
    }
    let tables: Vec<&str> = cases.iter().map(|(table, _)| *table).chain(["plain"]).collect();
    let mut case = BinlogCase::on(server, "partitions", &schema, &tables)?;
    case.once_and_same(&tables)?;
    for (_, statement) in cases {
        case.sql.run(statement)?;
    }
    case.sql.run(
        "update added set v = 0; insert into added values (3500, 1); update reorganized set v = 0 where id < 12",
    )?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    for table in ["truncated", "dropped", "exchanged", "plain"] {
        case.stopped(table, &["reload"])?;
    }
    case.same(&["added", "reorganized"])?;
    case.reload(&["truncated", "dropped", "exchanged", "plain"])?;
    case.sql
        .run("update exchanged set v = 1; delete from dropped where id = 15; insert into truncated values (15, 15)")?;
    case.once_and_same(&tables)?;
    case.pass()
}

/// Tables that are no longer those that were followed, though their names may be: each is read again as it is then.
fn tables_made_anew_or_renamed_are_read_again(server: &Server) -> anyhow::Result<()> {
    let schema = format!("{}{}{}", rows("t"), rows("u"), rows("good"));
    let mut case = BinlogCase::on(server, "anew", &schema, &["t", "u", "good"])?;
    let all = ["t", "u", "good"];
    case.once_and_same(&all)?;
    let same_columns = "create table t (id int primary key, v varchar(100))";
    let changes: [(&str, String); 6] = [
        ("t", format!("drop table t; {same_columns}; insert into t values (5, 'anew'), (900, 'anew')")),
        ("t", "drop table t; create table t (id int primary key, w text, n int); insert into t values (5, 'w', 1)".into()),
        ("t", format!("drop table if exists t; create table if not exists t (id int primary key); drop table t; {same_columns}")),
        ("u", "rename table u to away; delete from away where id < 10; rename table away to u; insert into u values (901, 'back')".into()),
        ("u", "create table next like u; alter table next add column more int; insert into next values (1, 'next', 1); rename table u to before_u, next to u".into()),
        ("u", "alter table before_u drop column v; drop table u; rename table before_u to u".into()),
    ];
    // With calve there, and with calve away.
    for running in [true, false] {
        for (table, statements) in &changes {
            let name = case.name(table);
            let calve = if running { Some(case.pipeline.start()?) } else { None };
            case.sql
                .run(&format!("update good set v = '{running}' where id = 7; delete from {table} where id = 12"))?;
            case.sql.run(statements)?;
            case.sql.run("insert into good select max(id) + 1, 'beside' from good")?;
            if running {
                case.pipeline.await_state(&name, "stopped")?;
                case.await_same(&["good"])?;
            } else {
                case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
                case.same(&["good"])?;
            }
            case.stopped(table, &["reload"])?;
            case.reload(&[table])?;
            case.sql.run(&format!("replace into {table} (id) values (77); delete from {table} where id = 5"))?;
            if let Some(calve) = calve {
                case.await_same(&all)?;
                calve.terminate()?;
            }
            case.once_and_same(&all)
                .map_err(|error| error.context(format!("calve was there: {running}; {statements}")))?;
        }
        // As they were at first.
        case.sql.run("drop table u")?;
        case.sql.run(&rows("u"))?;
        case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
        case.reload(&["u"])?;
    }

    // Away, it cannot be read again; back, it can.
    case.sql.run("rename table u to elsewhere; update elsewhere set v = 'elsewhere'")?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.stopped("u", &["dropped", "renamed"])?;
    case.reload_stops("u")?;
    case.same(&["t", "good"])?;
    case.sql.run(
        "rename table elsewhere to u; update u set v = 'back' where id = 3; update t set id = id + 1 order by id desc",
    )?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.reload(&["u"])?;
    case.sql.run("delete from u where id = 4")?;
    case.once_and_same(&all)?;
    case.pass()
}

/// Tables that cannot follow are read again by themselves, where that is what is asked for.
fn by_policy_tables_are_read_again(server: &Server) -> anyhow::Result<()> {
    let all = ["t", "u", "good"];
    let mut case = BinlogCase::on(server, "policies", &all.map(rows).concat(), &all)?;
    case.pipeline = case.pipeline.clone().with("schema_changes: {otherwise: reload}");
    case.once_and_same(&all)?;
    let alter = |column: &str| {
        format!(
            "update good set v = '{column}' where id = 7;
             alter table t add column {column} int not null default 7; update t set {column} = 8 where id = 2;"
        )
    };
    let calve = case.pipeline.start()?;
    case.sql.run(&alter("n"))?;
    case.sql.run("drop table u; create table u (id int primary key, n int); insert into u values (1, 1), (2, 2)")?;
    case.await_same(&all)?;
    calve.terminate()?;
    // Away it finds that there is something to be read again, and does so before it leaves.
    case.sql.run(&alter("m"))?;
    case.once_and_same(&all)?;
    case.pass()
}

on_every_server!(
    by_policy_tables_are_read_again,
    statements_that_change_no_row_are_passed_over,
    a_statement_that_matters_stops_just_its_table,
    partitions_that_are_emptied_or_exchanged_stop_their_table,
    tables_made_anew_or_renamed_are_read_again,
);
