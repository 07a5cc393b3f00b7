//! Tables of one pattern merged into one table: the same keys in all of them, members that are altered one after the other, that come
//! and that go.

use anyhow::ensure;
use calve_integration::compare::{Differences, Pair, SourceRows};
use calve_integration::pipeline::until;
use calve_integration::readers;
use calve_integration::sql::Sql;
use calve_testkit::readers::Reader;
use calve_testkit::servers::{Kind, Options, Server};

use super::{BinlogCase, numbers, on_every_server, on_every_version};

/// What `check` ends with where something is to be mended.
const UNMET: i32 = 2;

const COLUMNS: &str = "id int not null, v varchar(40), n int not null, primary key (id)";

/// Two tables with the same keys and other values, and one beside them that belongs to none.
fn tables() -> String {
    format!(
        "create table orders_1 ({COLUMNS}) character set utf8mb4;
         insert into orders_1 select i, concat('one ', i), i from {numbers};
         create table orders_2 like orders_1;
         insert into orders_2 select i, concat('two ', i), 2 * i from {numbers};
         create table other (id int primary key, v int); insert into other values (1, 1);",
        numbers = numbers(1, 100)
    )
}

/// What the members are together, as a view of the source: each by its name and what it has of the merged columns.
struct Union<'a>(&'a [(&'a str, &'a str)]);

const TWO: Union<'_> = Union(&[("orders_1", "id, v, n"), ("orders_2", "id, v, n")]);

struct Shards {
    case: BinlogCase,
    /// Where the members are tables `orders` of several databases: how their databases' names begin.
    databases: Option<Databases>,
}

/// Databases of this beginning, which go with the value.
struct Databases {
    sql: Sql,
    beginning: String,
}

impl Drop for Databases {
    fn drop(&mut self) {
        let begins = format!("left(schema_name, {}) = '{}'", self.beginning.len(), self.beginning);
        let found = self.sql.rows(&format!("select schema_name from information_schema.schemata where {begins}"));
        for name in found.into_iter().flatten().flatten().flatten() {
            if let Err(error) = self.sql.run(&format!("drop database {name}")) {
                eprintln!("database {name} stays behind: {error:#}");
            }
        }
    }
}

impl Shards {
    fn on(server: &Server, label: &str, extra: &str) -> anyhow::Result<Self> {
        let mut case = BinlogCase::on(server, label, &tables(), &[])?;
        let database = case.database.name().to_owned();
        case.pipeline = case.pipeline.clone().tables(&[
            &format!("{{name: '{database}.orders_*', merge: {database}.orders, origin: shard{extra}}}"),
            &format!("{database}.other"),
        ]);
        Ok(Self { case, databases: None })
    }

    /// The same two tables, each in a database of its own: members are named by how their databases' names end.
    fn across(server: &Server, label: &str) -> anyhow::Result<Self> {
        let mut case = BinlogCase::on(server, label, &tables(), &[])?;
        let database = case.database.name().to_owned();
        let beginning = format!("{database}_of_");
        let databases = Databases { sql: case.connect()?, beginning: beginning.clone() };
        for member in ["1", "2"] {
            case.sql.run(&format!(
                "create database {beginning}{member}; rename table orders_{member} to {beginning}{member}.orders;
                 create table {beginning}{member}.others (id int)"
            ))?;
        }
        case.pipeline = case.pipeline.clone().tables(&[
            &format!("{{name: '{beginning}*.orders', merge: {database}.orders, origin: shard}}"),
            &format!("{database}.other"),
        ]);
        Ok(Self { case, databases: Some(databases) })
    }

    /// A member's name, and what its rows have as their origin.
    fn member(&self, member: &str) -> (String, String) {
        match &self.databases {
            Some(Databases { beginning, .. }) => {
                (format!("{beginning}{member}.orders"), format!("{beginning}{member}"))
            }
            None => (member.to_owned(), member.to_owned()),
        }
    }

    /// Statements in which `orders_` stands before the member's part of a name.
    fn run_across(&mut self, sql: &str) -> anyhow::Result<()> {
        let mut written = String::new();
        let mut parts = sql.split("orders_");
        written.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
            written.push_str(&self.member(&part[..end]).0);
            written.push_str(&part[end..]);
        }
        self.run(&written)
    }

    fn run(&mut self, sql: &str) -> anyhow::Result<()> {
        self.case.sql.run(sql)
    }

    /// The union as the source has it now, and the lake.
    fn differences(&mut self, union: &Union<'_>) -> anyhow::Result<Differences> {
        let selects: Vec<String> = union
            .0
            .iter()
            .map(|(member, columns)| {
                let (table, origin) = self.member(member);
                format!("select '{origin}' as shard, {columns} from {table}")
            })
            .collect();
        self.run(&format!("create or replace view whole as {}", selects.join(" union all ")))?;
        let database = self.case.database.name().to_owned();
        let source = SourceRows::read(&mut self.case.sql, &Pair::new((&database, "whole"), (&database, "orders")))?;
        let columns: Vec<String> = source.columns.iter().map(|column| format!("\"{column}\"")).collect();
        let table = self.case.lake().table(&database, "orders")?;
        let query = format!("select {} from t", columns.join(", "));
        let read = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, &query)?))?;
        Ok(Differences::between(&source, &read.rows))
    }

    fn same(&mut self, union: &Union<'_>) -> anyhow::Result<()> {
        let differences = self.differences(union)?;
        ensure!(differences.is_empty(), "{differences}");
        self.case.same(&["other"])
    }

    fn same_by_spark(&mut self, union: &Union<'_>) -> anyhow::Result<()> {
        self.same(union)?;
        let database = self.case.database.name().to_owned();
        let pair = Pair::new((&database, "whole"), (&database, "orders"));
        let source = SourceRows::read(&mut self.case.sql, &pair)?;
        let columns: Vec<String> = source.columns.iter().map(|column| format!("`{column}`")).collect();
        let table = self.case.lake().table(&database, "orders")?;
        let query = format!("select {} from t", columns.join(", "));
        let read = readers::spark(|spark| Ok(spark.query_table(&table, &query)?))?;
        let differences = Differences::between(&source, &read.rows);
        ensure!(differences.is_empty(), "by Spark: {differences}");
        Ok(())
    }

    fn await_same(&mut self, union: &Union<'_>) -> anyhow::Result<()> {
        let mut last = String::new();
        let waited = until("the merged table to equal its members", || {
            let found = self.differences(union);
            last = format!("{found:?}");
            Ok(found.is_ok_and(|found| found.is_empty()))
        });
        waited.map_err(|error| error.context(last))
    }

    fn streams(&self) -> anyhow::Result<()> {
        let state = self.case.pipeline.state(&self.case.name("orders"))?;
        ensure!(state.state == "streaming", "{state:?}");
        Ok(())
    }

    /// The merged table is stopped, says all of this, and comes back by being read again.
    fn stopped_and_back(&mut self, says: &[&str], union: &Union<'_>) -> anyhow::Result<()> {
        self.case.stopped("orders", says)?;
        self.case.reload(&["orders"])?;
        self.same(union)?;
        self.streams()
    }

    fn verify(&self) -> anyhow::Result<()> {
        self.case.pipeline.finish(&["verify"])?.expect_success()?;
        Ok(())
    }
}

/// Changes of every kind in both, with the same keys.
const CHANGES: &[&str] = &[
    "update orders_1 set v = 'changed' where id in (1, 2)",
    "delete from orders_2 where id in (2, 3)",
    "update orders_2 set id = id + 1000 where id between 10 and 12",
    "begin; update orders_1 set id = 2000 where id = 20; update orders_2 set id = 20000 where id = 20; insert into orders_2 values (2000, 'ü', 1); commit",
    "insert into orders_1 values (3000, null, 1); delete from orders_1 where id = 3000; insert into orders_2 values (3000, 'stays', 1)",
    "replace into orders_1 values (5, 'replaced', 5)",
    "insert into orders_1 select id, v, n from orders_2 where id between 1000 and 1100; update other set v = v + 1",
];

/// Loaded, streamed while it runs and while it is away; by both readers, and by calve's own comparison.
fn merged(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(server, "shards", "")?;
    let told = shards.case.pipeline.finish(&["check"])?.expect_success()?.stdout;
    let name = shards.case.name("orders");
    ensure!(told.contains(&format!("{name} is merged of 2 tables: {name}_1, {name}_2")), "{told}");
    let calve = shards.case.pipeline.start()?;
    shards.await_same(&TWO)?;
    for change in CHANGES {
        shards.run(change)?;
        shards.await_same(&TWO).map_err(|error| error.context(*change))?;
    }
    shards.verify()?;
    calve.terminate()?;
    for change in CHANGES.iter().filter(|change| !change.contains("20000")) {
        // With other keys than before.
        let other = change.replace("1000", "5000").replace("3000", "6000");
        shards.run(&other)?;
    }
    shards.case.pipeline.once()?;
    shards.same_by_spark(&TWO)?;
    shards.streams()?;
    shards.verify()?;
    // Read again as a whole.
    shards.case.reload(&["orders"])?;
    shards.same(&TWO)?;
    shards.case.pass()
}

/// Each member is migrated by itself, at its own time; a new one comes meanwhile.
const STEPS: &[(&str, Union<'_>)] = &[
    (
        "alter table orders_1 add w bigint first; update orders_1 set w = 7 where id < 5; update orders_2 set n = 5 where id = 5",
        Union(&[("orders_1", "id, v, n, w"), ("orders_2", "id, v, n, null as w")]),
    ),
    (
        "create table orders_3 like orders_2; insert into orders_3 values (1, 'three', 3), (2, 'three', 3)",
        Union(&[("orders_1", "id, v, n, w"), ("orders_2", "id, v, n, null as w"), ("orders_3", "id, v, n, null as w")]),
    ),
    (
        "alter table orders_2 add W bigint; update orders_2 set w = 8 where id < 5; delete from orders_1 where id = 30",
        Union(&[("orders_1", "id, v, n, w"), ("orders_2", "id, v, n, w"), ("orders_3", "id, v, n, null as w")]),
    ),
    (
        "alter table orders_3 modify n bigint not null, modify v varchar(200); update orders_3 set n = 5000000000, v = repeat('é', 150) where id = 1;
         update orders_1 set id = id + 7000 where id between 50 and 60",
        Union(&[("orders_1", "id, v, n, w"), ("orders_2", "id, v, n, w"), ("orders_3", "id, v, n, null as w")]),
    ),
    (
        "create table if not exists orders_4 (n int not null, e enum('a','b'), id int not null, primary key (id)) character set utf8mb4;
         insert into orders_4 values (4, 'b', 1); begin; update orders_4 set id = 9 where id = 1; insert into orders_4 values (1, 'a', 1); commit",
        Union(&[
            ("orders_1", "id, v, n, w, null as e"),
            ("orders_2", "id, v, n, w, null as e"),
            ("orders_3", "id, v, n, null as w, null as e"),
            ("orders_4", "id, null as v, n, null as w, e"),
        ]),
    ),
];

fn altered_one_after_the_other(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(server, "shardsteps", "")?;
    let calve = shards.case.pipeline.start()?;
    shards.await_same(&TWO)?;
    for (sql, union) in STEPS {
        shards.run(sql)?;
        shards.await_same(union).map_err(|error| error.context(*sql))?;
        shards.streams()?;
    }
    shards.verify()?;
    calve.terminate()?;
    shards.case.pass()
}

fn altered_while_away(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(server, "shardsaway", "")?;
    shards.case.pipeline.once()?;
    let (last, first) = STEPS.split_last().expect("there are steps");
    for (sql, _) in first {
        shards.run(sql)?;
    }
    shards.case.pipeline.once()?;
    shards.same(&first[first.len() - 1].1)?;
    // Whether that statement made the table or found it there is not known while nobody looks.
    shards.run(&last.0.replace(" if not exists", ""))?;
    shards.case.pipeline.once()?;
    shards.same_by_spark(&last.1)?;
    shards.streams()?;
    shards.verify()?;
    shards.case.pass()
}

/// Killed at any moment, nothing is done twice and nothing is left out.
fn altered_and_killed(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(server, "shardskill", "")?;
    shards.case.pipeline = shards.case.pipeline.clone().checkpoint("interval", "50ms");
    shards.case.pipeline.once()?;
    for (round, (sql, _)) in (0_u64..).zip(STEPS) {
        let calve = shards.case.pipeline.start()?;
        shards.run(&sql.replace(" if not exists", ""))?;
        std::thread::sleep(std::time::Duration::from_millis(60 * round));
        calve.kill()?;
        shards.run(&format!(
            "update orders_1 set v = 'killed {round}' where id < 20; update orders_2 set id = id + 100000 where id = 40 + {round}"
        ))?;
    }
    shards.case.pipeline.once()?;
    shards.same(&STEPS[STEPS.len() - 1].1)?;
    shards.streams()?;
    shards.verify()?;
    shards.case.pass()
}

/// Died at each step of the commit that brings a new member and a new column.
fn died_at_failpoints(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(server, "shardsdie", "")?;
    shards.case.pipeline.once()?;
    let points =
        ["positions.intent-written", "commit.metadata-written", "lake.commit.after", "positions.advance.before"];
    let mut union = vec![("orders_1", "id, v, n".to_owned()), ("orders_2", "id, v, n".to_owned())];
    for (at, point) in points.iter().enumerate() {
        shards.run(&format!(
            "alter table orders_1 add c{at} int; update orders_1 set c{at} = id where id < 9;
             create table orders_x{at} like orders_2; insert into orders_x{at} values (1, 'new', {at})"
        ))?;
        shards.case.pipeline.dies_at(point, &["run", "--once"])?;
        shards.case.pipeline.once()?;
        for (table, columns) in &mut union {
            columns.push_str(&if *table == "orders_1" { format!(", c{at}") } else { format!(", null as c{at}") });
        }
        let nulls: Vec<String> = (0..=at).map(|column| format!(", null as c{column}")).collect();
        let name = ["orders_x0", "orders_x1", "orders_x2", "orders_x3"][at];
        union.push((name, format!("id, v, n{}", nulls.concat())));
        let borrowed: Vec<(&str, &str)> = union.iter().map(|(table, columns)| (*table, columns.as_str())).collect();
        shards.same(&Union(&borrowed)).map_err(|error| error.context(*point))?;
    }
    shards.streams()?;
    shards.verify()?;
    shards.case.pass()
}

/// What rows cannot follow stops the merged table by name, and reading it again mends it; the table beside it goes on.
fn what_rows_cannot_follow(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(server, "shardsstop", "")?;
    shards.case.pipeline.once()?;
    let renamed = Union(&[("orders_1", "id, v, n"), ("orders_2", "id, v, n"), ("orders_late", "id, v, n")]);
    let steps: &[(&str, &[&str], &Union<'_>)] = &[
        ("truncate orders_2", &["orders_2", "was emptied"], &TWO),
        ("insert into orders_2 values (1, 'again', 1)", &[], &TWO),
        ("drop table orders_2", &["orders_2", "dropped"], &Union(&[("orders_1", "id, v, n")])),
        ("create table orders_2 like orders_1; insert into orders_2 values (1, 'anew', 1)", &[], &TWO),
        (
            "create table late like orders_1; insert into late values (1, 'late', 1); rename table late to orders_late",
            &["renamed to", "orders_late"],
            &renamed,
        ),
        ("alter table orders_1 modify n varchar(20) not null", &["orders_1", "column", "n"], &renamed),
    ];
    for (sql, says, union) in steps {
        shards.run(&format!("{sql}; update other set v = v + 1"))?;
        let finished = shards.case.pipeline.finish(&["run", "--once"])?;
        shards.case.same(&["other"])?;
        if says.is_empty() {
            finished.expect_success()?;
            shards.same(union)?;
            continue;
        }
        shards.case.stopped("orders", says)?;
        if sql.contains("modify") {
            // No table can have both; and it says so when it is read.
            shards.case.reload_stops("orders")?;
            shards.run("alter table orders_1 modify n int not null")?;
        }
        shards.stopped_and_back(&[], union).map_err(|error| error.context(*sql))?;
    }
    shards.verify()?;
    shards.case.pass()
}

/// The character set of a new member may be that of its database, which no statement says: its texts are not guessed.
fn a_member_of_another_character_set(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(server, "shardstexts", "")?;
    shards.case.pipeline.once()?;
    let database = shards.case.database.name().to_owned();
    shards.run(&format!(
        "alter database {database} character set latin1; create table orders_3 ({COLUMNS}); insert into orders_3 values (1, 'é', 1)"
    ))?;
    let three = Union(&[("orders_1", "id, v, n"), ("orders_2", "id, v, n"), ("orders_3", "id, v, n")]);
    shards.case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    shards.stopped_and_back(
        &["orders_3", if server.kind() == Kind::MariaDb { "names no character set" } else { "they do not fit" }],
        &three,
    )?;
    // Said by the statement, it is known.
    shards
        .run(&format!("create table orders_4 ({COLUMNS}) charset latin2; insert into orders_4 values (1, 'ő', 1)"))?;
    shards.case.pipeline.once()?;
    let four = [three.0, &[("orders_4", "id, v, n")]].concat();
    shards.same(&Union(&four))?;
    shards.case.pass()
}

/// By `otherwise: reload` it is read again by itself; and a column that one member dropped keeps what was in it.
fn read_again_by_itself(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(server, "shardsreload", "")?;
    shards.case.pipeline = shards.case.pipeline.clone().with("schema_changes: {otherwise: reload}");
    let calve = shards.case.pipeline.start()?;
    shards.await_same(&TWO)?;
    shards.run("truncate orders_2; insert into orders_2 values (1, 'again', 1)")?;
    shards.await_same(&TWO)?;
    shards.run(
        "create table late like orders_1; insert into late values (1, 'late', 1); rename table late to orders_late",
    )?;
    let three = Union(&[("orders_1", "id, v, n"), ("orders_2", "id, v, n"), ("orders_late", "id, v, n")]);
    shards.await_same(&three)?;
    shards.run("drop table orders_late")?;
    shards.await_same(&TWO)?;
    shards.run("alter table orders_2 drop v; insert into orders_2 values (77, 7), (78, 8); update orders_1 set v = 'still' where id = 3")?;
    let without = Union(&[("orders_1", "id, n"), ("orders_2", "id, n")]);
    shards.await_same(&without)?;
    shards.verify()?;
    let database = shards.case.database.name().to_owned();
    let table = shards.case.lake().table(&database, "orders")?;
    let read = readers::duckdb(|duckdb| {
        Ok(duckdb.query_table(&table, "select id, v from t where shard = 'orders_2' order by id")?)
    })?;
    let text = |text: &str| Some(text.to_owned());
    ensure!(read.rows == [[text("1"), text("again")], [text("77"), None], [text("78"), None]], "{:?}", read.rows);
    calve.terminate()?;
    shards.case.pass()
}

/// What is found at a start and was not there before has to be in the log, and what is to be no member any more was one.
fn found_at_a_start(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(server, "shardsfound", "")?;
    shards.case.pipeline.once()?;
    let three = Union(&[("orders_1", "id, v, n"), ("orders_2", "id, v, n"), ("orders_3", "id, v, n")]);
    let four = Union(&[
        ("orders_1", "id, v, n"),
        ("orders_2", "id, v, n"),
        ("orders_3", "id, v, n"),
        ("orders_4", "id, v, n"),
    ]);
    let steps: &[(&str, &str, &Union<'_>)] = &[
        (
            "set sql_log_bin = 0; create table orders_3 like orders_1; insert into orders_3 values (1, 'unseen', 1); set sql_log_bin = 1",
            "orders_3 belongs to it, and the log has not said how it was made",
            &three,
        ),
        (
            "create table if not exists orders_4 like orders_1; insert into orders_4 values (1, 'four', 1)",
            "a statement made",
            &four,
        ),
        (
            "set sql_log_bin = 0; create table orders_5 like orders_1; set sql_log_bin = 1; drop table orders_5; insert into orders_4 values (2, 'on', 2)",
            "",
            &four,
        ),
    ];
    for (sql, says, union) in steps {
        shards.run(&format!("{sql}; update other set v = v + 1"))?;
        let finished = shards.case.pipeline.finish(&["run", "--once"])?;
        shards.case.same(&["other"])?;
        if says.is_empty() {
            finished.expect_success()?;
            shards.same(union)?;
        } else {
            shards.stopped_and_back(&[says], union).map_err(|error| error.context(*sql))?;
        }
    }
    let database = shards.case.database.name().to_owned();
    shards.case.pipeline = shards.case.pipeline.clone().with(&format!("exclude: [{database}.orders_4]"));
    shards.case.pipeline.finish(&["run", "--once"])?;
    shards.stopped_and_back(&["orders_4 is to be none any more"], &three)?;
    shards.verify()?;
    shards.case.pass()
}

on_every_server!(
    merged,
    altered_one_after_the_other,
    altered_while_away,
    altered_and_killed,
    died_at_failpoints,
    what_rows_cannot_follow,
    a_member_of_another_character_set,
    read_again_by_itself,
    found_at_a_start
);

/// The log names its columns, and is held to it.
fn with_full_metadata(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default().set("binlog_row_metadata", "FULL"))?;
    altered_while_away(&server)?;
    altered_one_after_the_other(&server)
}

on_every_version!(with_full_metadata);

/// One table of several databases: loaded, streamed, with databases that come while it runs, while it is away, and go.
fn across_databases(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::across(server, "shardsdb")?;
    let beginning = shards.databases.as_ref().map(|databases| databases.beginning.clone()).unwrap_or_default();
    let columns = "id, v, n";
    let members = ["1", "2", "3", "4", "5"].map(|member| (member, columns));
    let told = shards.case.pipeline.finish(&["check"])?.expect_success()?.stdout;
    ensure!(told.contains(&format!("is merged of 2 tables: {beginning}1.orders, {beginning}2.orders")), "{told}");
    shards.case.pipeline.once()?;
    shards.same(&Union(&members[..2]))?;

    let calve = shards.case.pipeline.start()?;
    for change in CHANGES {
        shards.run_across(change)?;
        shards.await_same(&Union(&members[..2])).map_err(|error| error.context(*change))?;
    }
    // Without the table it is no member.
    shards.run(&format!("create database {beginning}3; create table {beginning}3.others (id int primary key)"))?;
    shards.run_across(&format!(
        "create table orders_3 ({COLUMNS}) character set utf8mb4; insert into orders_3 values (1, 'three ü', 3), (2, 'three', 3);
         update orders_3 set v = 'changed' where id = 2; delete from orders_1 where id = 4"
    ))?;
    shards.await_same(&Union(&members[..3]))?;
    shards.run(&format!("create database {beginning}4"))?;
    shards.run_across("create table orders_4 like orders_1; insert into orders_4 values (1, 'four', 4)")?;
    shards.await_same(&Union(&members[..4]))?;
    shards.streams()?;
    shards.verify()?;
    calve.terminate()?;

    // By the session's database.
    let database = shards.case.database.name().to_owned();
    shards.run(&format!(
        "create database {beginning}5; use {beginning}5; create table orders ({COLUMNS}) character set utf8mb4;
         insert into orders values (1, 'five', 5), (2, 'five', 5); delete from orders where id = 2; use {database}"
    ))?;
    shards.run_across("update orders_4 set id = 2 where id = 1; alter table orders_1 add w int")?;
    shards.run_across("update orders_1 set w = 1 where id = 5")?;
    shards.case.pipeline.once()?;
    let altered =
        members.map(|(member, _)| (member, if member == "1" { "id, v, n, w" } else { "id, v, n, null as w" }));
    shards.same_by_spark(&Union(&altered))?;
    shards.case.reload(&["orders"])?;
    shards.same(&Union(&altered))?;
    shards.verify()?;

    shards.run(&format!("drop database {beginning}2; update other set v = v + 1"))?;
    shards.run_across("insert into orders_3 values (9, 'meanwhile', 3)")?;
    shards.case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    shards.case.same(&["other"])?;
    let without: Vec<_> = altered.into_iter().filter(|(member, _)| *member != "2").collect();
    shards.stopped_and_back(&[&format!("{beginning}2.orders"), "dropped"], &Union(&without))?;
    // The database comes again.
    shards.run(&format!("create database {beginning}2"))?;
    shards.run_across("create table orders_2 like orders_5; insert into orders_2 values (1, 'again', 2)")?;
    shards.case.pipeline.once()?;
    shards.same(&Union(&altered))?;
    shards.streams()?;
    shards.verify()?;
    shards.case.pass()
}

on_every_server!(across_databases);

/// Modes, partitions by origin, masks and conditions see one table.
fn as_any_other_table(server: &Server) -> anyhow::Result<()> {
    let mut shards = Shards::on(
        server,
        "shardspart",
        ", partition: shard, sort: [shard, id], where: \"n < 150 and shard <> 'orders_9'\"",
    )?;
    shards.case.pipeline.once()?;
    shards.run("create table orders_9 like orders_1; insert into orders_9 values (1, 'never', 1)")?;
    for change in CHANGES {
        shards.run(change)?;
    }
    shards.case.pipeline.once()?;
    shards.run("create view orders_1w as select * from orders_1 where n < 150; create view orders_2w as select * from orders_2 where n < 150")?;
    let database = shards.case.database.name().to_owned();
    let table = shards.case.lake().table(&database, "orders")?;
    for name in ["orders_1", "orders_2"] {
        let source = SourceRows::read(&mut shards.case.sql, &Pair::named(&format!("{database}.{name}w")))?;
        let read = readers::duckdb(|duckdb| {
            Ok(duckdb.query_table(&table, &format!("select id, v, n from t where shard = '{name}'"))?)
        })?;
        let differences = Differences::between(&source, &read.rows);
        ensure!(differences.is_empty(), "{name}: {differences}");
    }
    let never =
        readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, "select count(*) from t where shard = 'orders_9'")?))?;
    ensure!(never.rows == [[Some("0".to_owned())]], "{:?}", never.rows);
    shards.verify()?;
    shards.case.pass()
}

fn soft_deletes_and_logs(server: &Server) -> anyhow::Result<()> {
    for mode in ["soft_delete", "append"] {
        let shown_before = if mode == "append" { ", preimages: true" } else { "" };
        let label = format!("shards{}", mode.replace('_', ""));
        let mut shards = Shards::on(server, &label, &format!(", mode: {mode}{shown_before}"))?;
        shards.case.pipeline.once()?;
        shards.run("alter table orders_1 add w int; update orders_1 set w = 1 where id = 1; update orders_2 set id = 500 where id = 1; delete from orders_2 where id = 2")?;
        shards.case.pipeline.once()?;
        let database = shards.case.database.name().to_owned();
        let table = shards.case.lake().table(&database, "orders")?;
        let query = match mode {
            "soft_delete" => {
                "select shard, id, w, _calve_deleted_at is null from t where id in (1, 2, 500) order by shard, id"
            }
            _ => {
                "select shard, id, w, _calve_op from t where id in (1, 2, 500) and _calve_op <> 'read' order by _calve_ordinal, _calve_op"
            }
        };
        let read = readers::duckdb(|duckdb| Ok(duckdb.query_table(&table, query)?))?;
        let shown: Vec<String> = read
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.as_deref().unwrap_or("NULL")).collect::<Vec<_>>().join(" "))
            .collect();
        if mode == "soft_delete" {
            let expected = [
                "orders_1 1 1 true",
                "orders_1 2 NULL true",
                "orders_2 1 NULL false",
                "orders_2 2 NULL false",
                "orders_2 500 NULL true",
            ];
            ensure!(shown == expected, "{shown:?}");
        } else {
            // An update has the row before and the row after, each with its origin.
            let of = |what: &str| shown.iter().filter(|row| row.starts_with(what)).count();
            let counts = ["orders_1 1 ", "orders_1 2 ", "orders_2 1 ", "orders_2 500 ", "orders_2 2 "].map(of);
            ensure!(counts == [2, 0, 1, 1, 1], "{shown:?}");
        }
        shards.streams()?;
        shards.case.pass()?;
    }
    Ok(())
}

on_every_server!(as_any_other_table, soft_deletes_and_logs);

/// What cannot become one table is refused before anything is read, by name.
fn refused_by_check(server: &Server) -> anyhow::Result<()> {
    for (label, sql, says) in [
        ("key", "create table orders_3 (id int, n int not null, primary key (id, n))", "the primary key of"),
        ("type", "create table orders_3 (id int primary key, n date not null)", "column n of"),
        ("column", "create table orders_3 (id int primary key, n int not null, Shard int)", "has a column Shard"),
        ("nokey", "create table orders_3 (id int, n int not null)", "has no primary key"),
    ] {
        let mut shards = Shards::on(server, &format!("shards{label}"), "")?;
        shards.run(sql)?;
        let told = shards.case.pipeline.finish(&["check"])?.expect_code(UNMET)?.stdout;
        ensure!(told.contains(says) && told.contains("orders_3"), "{label}: {told}");
        shards.case.pass()?;
    }
    Ok(())
}

on_every_server!(refused_by_check);
