//! Tables whose copies, built by gh-ost and pt-online-schema-change, take their names: followed as the ALTER that the copy got, whenever
//! calve is there. The statements are those that the tools send (`applier.go` of gh-ost, `pt-online-schema-change`).

use std::process::Command;

use anyhow::{Context, ensure};
use calve_integration::binary;
use calve_integration::compare::{self, Pair};
use calve_integration::pipeline::until;
use calve_integration::readers;
use calve_testkit::servers::{Kind, Options, Server};

use super::{BinlogCase, numbers, on_every_server, on_every_version};

const TABLES: &str = "create table t (id int primary key, v varchar(50), n int, gone text, e enum('a','b'), k int, unique key (k)) character set utf8mb4;";

fn tables() -> String {
    format!(
        "{TABLES} insert into t select i, concat('v', i), i, 'old', 'a', i from {};
         create table good (id int primary key, v varchar(100)); insert into good values (1, 'x');",
        numbers(1, 60)
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Ghost,
    /// `--cut-over=two-step`.
    TwoStepGhost,
    Percona,
}

/// A migration: what is done to the table, and which of its columns become which of the copy's.
struct Migration {
    alter: &'static str,
    from: &'static str,
    to: &'static str,
    /// A change of the row 7 that only the new table takes, and all that row then.
    after: &'static str,
}

/// One after the other.
const MIGRATIONS: [Migration; 3] = [
    Migration {
        alter: "add column w int, add index (w)",
        from: "id, v, n, gone, e, k",
        to: "id, v, n, gone, e, k",
        after: "w = 70",
    },
    Migration {
        alter: "change v title varchar(200), modify n bigint, drop column gone, add column first_ date first, modify e enum('a','b','c') after id",
        from: "id, v, n, e, k, w",
        to: "id, title, n, e, k, w",
        after: "title = repeat('é', 200), n = 5000000000, e = 'c', first_ = '2024-02-29'",
    },
    // A name that was another column's, in the migration after.
    Migration {
        alter: "add column gone int, drop column w, engine=InnoDB",
        from: "id, title, n, e, k, first_",
        to: "id, title, n, e, k, first_",
        after: "gone = 7",
    },
];

impl Tool {
    fn copy(self) -> &'static str {
        if self == Self::Percona { "_t_new" } else { "_t_gho" }
    }

    /// The statements of a migration, with what is written to the table meanwhile and mirrored, one string for each point at which calve
    /// may come and go.
    fn statements(self, case: &mut BinlogCase, migration: &Migration, round: usize) -> anyhow::Result<Vec<String>> {
        let (db, copy) = (case.database.name().to_owned(), self.copy());
        let Migration { alter, from, to, after } = migration;
        let mirrored = |write: &str, ids: &str| {
            if self == Self::Percona {
                // By its triggers.
                return write.to_owned();
            }
            format!(
                "{write}; delete from {copy} where id in ({ids}); \
                 replace into {copy} ({to}) select {from} from t where id in ({ids})"
            )
        };
        let piece = |first: u32, last: u32| {
            format!(
                "insert /* gh-ost */ ignore into `{db}`.`{copy}` ({to}) select {from} from t where id between {first} and {last} \
                 lock in share mode"
            )
        };
        let begin = if self == Self::Percona {
            let shown = case.sql.rows("show create table t")?;
            let shown = shown.first().and_then(|row| row.get(1).cloned().flatten()).context("it shows one row")?;
            let written = shown.replacen("CREATE TABLE `t` (", &format!("CREATE TABLE `{db}`.`{copy}` ("), 1);
            ensure!(written != shown, "{shown}");
            let values = from.split(", ").map(|column| format!("new.`{column}`")).collect::<Vec<_>>().join(", ");
            let replace = format!("REPLACE INTO `{db}`.`{copy}` ({to}) VALUES ({values})");
            let delete = format!("DELETE IGNORE FROM `{db}`.`{copy}` WHERE");
            let trigger = |name: &str, event: &str, body: &str| {
                format!("CREATE TRIGGER `pt_osc_{db}_t_{name}` AFTER {event} ON `{db}`.`t` FOR EACH ROW {body}")
            };
            vec![
                written,
                format!("ALTER TABLE `{db}`.`{copy}` {alter}"),
                trigger("del", "DELETE", &format!("{delete} `{db}`.`{copy}`.`id` <=> OLD.`id`")),
                trigger(
                    "upd",
                    "UPDATE",
                    &format!(
                        "BEGIN {delete} !(OLD.`id` <=> NEW.`id`) AND `{db}`.`{copy}`.`id` <=> OLD.`id`; {replace}; END"
                    ),
                ),
                trigger("ins", "INSERT", &replace),
            ]
        } else {
            vec![
                format!(
                    "drop /* gh-ost */ table if exists `{db}`.`{copy}`; drop /* gh-ost */ table if exists `{db}`.`_t_del`;
                     create /* gh-ost */ table `{db}`.`_t_ghc` (id bigint unsigned auto_increment primary key, hint varchar(64), value varchar(4096), unique key hint_uidx (hint)) auto_increment=256;
                     create /* gh-ost */ table `{db}`.`{copy}` like `{db}`.`t`"
                ),
                format!(
                    "alter /* gh-ost */ table `{db}`.`{copy}` {alter}; alter /* gh-ost */ table `{db}`.`{copy}` AUTO_INCREMENT=1000;
                     insert /* gh-ost */ into `{db}`.`_t_ghc` (hint, value) values ('state', 'GhostTableMigrated')"
                ),
            ]
        };
        let (new, gone) = (1000 + round, 21 + round);
        let cut_over = match self {
            Self::Ghost => vec![format!(
                "create /* gh-ost */ table `{db}`.`_t_del` (id int auto_increment primary key) engine=InnoDB comment='ghost-cut-over-sentry';
                 drop /* gh-ost */ table `{db}`.`_t_del`;
                 rename /* gh-ost */ table `{db}`.`t` to `{db}`.`_t_del`, `{db}`.`{copy}` to `{db}`.`t`;
                 update t set {after} where id = 7"
            )],
            Self::TwoStepGhost => vec![
                format!("alter /* gh-ost */ table `{db}`.`t` rename `_t_20250131235959_del`"),
                format!("alter /* gh-ost */ table `{db}`.`{copy}` rename `t`; update t set {after} where id = 7"),
            ],
            Self::Percona => vec![format!(
                "ANALYZE TABLE `{db}`.`{copy}` /* pt-online-schema-change */;
                 RENAME TABLE `{db}`.`t` TO `{db}`.`_t_old`, `{db}`.`{copy}` TO `{db}`.`t`; update t set {after} where id = 7"
            )],
        };
        let end = match self {
            Self::Ghost => format!(
                "drop /* gh-ost */ table if exists `{db}`.`_t_ghc`; drop /* gh-ost */ table if exists `{db}`.`_t_del`"
            ),
            Self::TwoStepGhost => "drop table _t_ghc; drop table _t_20250131235959_del".to_owned(),
            Self::Percona => format!("DROP TABLE IF EXISTS `{db}`.`_t_old`"),
        };
        let mut all = begin;
        all.extend([
            mirrored("update t set n = n + 1 where id in (3, 50)", "3, 50"),
            piece(1, 30),
            mirrored(&format!("insert into t (id, n) values ({new}, 1)"), &new.to_string()),
            format!(
                "{}; update good set v = 'during {round}'",
                mirrored(&format!("delete from t where id = {gone}"), &gone.to_string())
            ),
            piece(31, 5000),
            mirrored("update t set e = 'b', n = n + 1 where id in (4, 51)", "4, 51"),
        ]);
        all.extend(cut_over);
        all.push(format!(
            "{end}; update t set n = n + 1 where id in (5, 52); insert into t (id, n) values ({}, 2)",
            new + 500
        ));
        Ok(all)
    }
}

/// Fails unless the columns of the source have the same values in the lake, where those that were dropped are left.
fn same(case: &mut BinlogCase, table: &str) -> anyhow::Result<()> {
    let pair = Pair::named(&case.name(table));
    let lake = case.lake().clone();
    let (_, found) = readers::duckdb(|duckdb| compare::compare_by_name(&mut case.sql, &lake, &pair, duckdb))?;
    ensure!(found.is_empty(), "{table}: {found}");
    Ok(())
}

fn await_same(case: &mut BinlogCase, table: &str) -> anyhow::Result<()> {
    let mut last = String::new();
    let waited = until("the table to equal its source", || {
        let found = same(case, table);
        last = format!("{found:?}");
        Ok(found.is_ok())
    });
    waited.map_err(|error| error.context(last))
}

/// The table streams, was loaded once, and its columns have the numbers that they have by the migrations.
fn followed(case: &BinlogCase) -> anyhow::Result<()> {
    let state = case.pipeline.state(&case.name("t"))?;
    ensure!(state.state == "streaming", "{state:?}");
    let metadata = case.lake().metadata(case.database.name(), "t")?;
    let present = &metadata.json()["current-schema-id"];
    let schemas = metadata.json()["schemas"].as_array().context("schemas are listed")?;
    let schema = schemas.iter().find(|schema| schema["schema-id"] == *present).context("one is the present one")?;
    let columns = schema["fields"].as_array().context("fields are listed")?;
    let id_of =
        |name: &str| columns.iter().find(|column| column["name"] == name).and_then(|column| column["id"].as_i64());
    for (name, id) in [("id", 1), ("title", 2), ("n", 3), ("e", 5), ("k", 6), ("w", 7)] {
        ensure!(id_of(name) == Some(id), "{name} is not number {id} in {columns:?}");
    }
    ensure!(id_of("gone").is_some_and(|id| id > 7), "{columns:?}");
    Ok(())
}

fn followed_while_it_runs(server: &Server) -> anyhow::Result<()> {
    for tool in [Tool::Ghost, Tool::TwoStepGhost, Tool::Percona] {
        let mut case = BinlogCase::on(server, "swapped", &tables(), &["t", "good"])?;
        let calve = case.pipeline.start()?;
        await_same(&mut case, "t")?;
        for (round, migration) in MIGRATIONS.iter().enumerate() {
            for statement in tool.statements(&mut case, migration, round)? {
                case.sql.run(&statement)?;
            }
            await_same(&mut case, "t").map_err(|error| error.context(format!("{tool:?}: {}", migration.alter)))?;
        }
        case.await_same(&["good"])?;
        followed(&case)?;
        let log = calve.log();
        ensure!(!log.contains("\"table stopped\""), "{tool:?}: {log}");
        calve.terminate()?;
        case.pipeline.finish(&["verify"])?.expect_success()?;
        case.pass()?;
    }
    Ok(())
}

fn followed_as_backlog(server: &Server) -> anyhow::Result<()> {
    for tool in [Tool::Ghost, Tool::TwoStepGhost, Tool::Percona] {
        let mut case = BinlogCase::on(server, "swapped_away", &tables(), &["t", "good"])?;
        case.pipeline.once()?;
        for (round, migration) in MIGRATIONS.iter().enumerate() {
            for statement in tool.statements(&mut case, migration, round)? {
                case.sql.run(&statement)?;
            }
        }
        case.pipeline.once()?;
        same(&mut case, "t")?;
        case.same(&["good"])?;
        followed(&case)?;
        case.pass()?;
    }
    Ok(())
}

/// It starts anew between any two statements, knows the copy from what the table records, and is killed at the commits.
fn followed_over_restarts(server: &Server) -> anyhow::Result<()> {
    for tool in [Tool::Ghost, Tool::TwoStepGhost, Tool::Percona] {
        let mut case = BinlogCase::on(server, "swapped_between", &tables(), &["t", "good"])?;
        case.pipeline.once()?;
        for (round, migration) in MIGRATIONS.iter().enumerate() {
            for (n, statement) in tool.statements(&mut case, migration, round)?.iter().enumerate() {
                case.sql.run(statement)?;
                if n % 2 == round % 2 {
                    // The log goes on without a row of the table.
                    case.sql.run("update good set v = concat(left(v, 20), '.')")?;
                }
                let dies = ["lake.commit.before", "commit.swapped", "positions.intent-written"].get(n % 4);
                if let Some(place) = dies.filter(|_| round == 1) {
                    let mut command = case.pipeline.command(&["run", "--once"])?;
                    command.env("CALVE_FAILPOINT", place);
                    let finished = binary::finish(command, &case.pipeline.log("killed"))?;
                    ensure!(finished.code == Some(0) || finished.signal == Some(6), "{finished:?}");
                }
                case.pipeline.once().map_err(|error| error.context(format!("{tool:?}: {statement}")))?;
            }
            same(&mut case, "t")?;
        }
        case.same(&["good"])?;
        followed(&case)?;
        case.pass()?;
    }
    Ok(())
}

fn followed_with_full_metadata(kind: Kind, version: &str) -> anyhow::Result<()> {
    let server = Server::start(kind, version, &Options::default().set("binlog_row_metadata", "FULL"))?;
    followed_as_backlog(&server)?;
    followed_while_it_runs(&server)
}

/// What a copy's rows need not be the table's by: the table stops as it does where it is altered so itself.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "defaulted",
        "create table _{t}_gho like {t}; alter table _{t}_gho add w int not null default 5; insert into _{t}_gho (id, v) select id, v from {t}",
        "was added with a default",
    ),
    (
        "uniqued",
        "create table _{t}_gho like {t}; alter table _{t}_gho add unique key (v); insert ignore into _{t}_gho select * from {t}",
        "unique index",
    ),
    (
        "retyped",
        "create table _{t}_gho like {t}; alter table _{t}_gho modify v varbinary(200); insert into _{t}_gho select * from {t}",
        "changed from",
    ),
    (
        "rekeyed",
        "create table _{t}_gho like {t}; alter table _{t}_gho drop primary key, add primary key (v); insert ignore into _{t}_gho select * from {t}",
        "unique index",
    ),
    (
        "added_anew",
        "create table _{t}_gho like {t}; alter table _{t}_gho drop v, add v varchar(200); insert into _{t}_gho select * from {t}",
        "another column has the name",
    ),
    (
        "renamed_column",
        "create table _{t}_gho like {t}; alter table _{t}_gho rename column v to w; insert into _{t}_gho select * from {t}",
        "RENAME COLUMN",
    ),
    (
        "set_by_updates",
        "create table _{t}_gho like {t}; alter table _{t}_gho add w datetime null on update current_timestamp;
         insert into _{t}_gho (id, v) select * from {t}; update {t} set v = 'x' where id = 3; update _{t}_gho set v = 'x' where id = 3",
        "ON UPDATE",
    ),
    (
        "uniqued_in_parentheses",
        "create table _{t}_gho like {t}; alter table _{t}_gho add (w int null, unique key u (v)); insert ignore into _{t}_gho (id, v) select * from {t}",
        "unique index",
    ),
    (
        "unique_text",
        "create table _{t}_gho like {t}; alter table _{t}_gho modify v varchar(200); insert ignore into _{t}_gho select * from {t}",
        "another collation",
    ),
    (
        "text_made_unique",
        "alter table {t} add unique key (v); create table _{t}_gho like {t}; alter table _{t}_gho modify v varchar(200);
         insert ignore into _{t}_gho select * from {t}",
        "another collation",
    ),
    (
        "triggered",
        "create table _{t}_gho like {t}; create trigger {t}_x before insert on _{t}_gho for each row set new.v = upper(new.v);
         insert into _{t}_gho select * from {t}",
        "a trigger was made on it",
    ),
    (
        "with_foreign_key",
        "create table _{t}_new (id int not null, v varchar(100), primary key (id), foreign key (id) references parents (id)) default charset utf8mb4;
         insert ignore into _{t}_new select * from {t}",
        "foreign key",
    ),
    // Anybody may use such names.
    ("by_nobody", "create table _{t}_gho like {t}; insert into _{t}_gho select * from {t} where id > 10", "changelog"),
    (
        "by_no_triggers",
        "create table _{t}_new (id int not null, v varchar(100), primary key (id)) default charset utf8mb4;
         insert into _{t}_new select * from {t} where id > 10",
        "triggers of pt-online-schema-change",
    ),
    (
        "made_of_rows",
        "create table _{t}_new (id int not null, v varchar(100), primary key (id)) default charset utf8mb4 select * from {t} where id > 10",
        "took its name",
    ),
    ("emptied", "create table _{t}_gho like {t}; insert into _{t}_gho select * from {t}; truncate {t}", "emptied"),
    (
        "altered_itself",
        "create table _{t}_gho like {t}; insert into _{t}_gho select * from {t}; alter table {t} add w int",
        "not a copy",
    ),
    (
        "written_otherwise",
        "create table _{t}_new (id bigint, v varchar(100), primary key (id)) default charset latin1; insert into _{t}_new select * from {t}",
        "other types",
    ),
    ("by_hand", "create table {t}_next like {t}; insert into {t}_next select * from {t} where id > 10", "not a copy"),
    ("like_new", "create table _{t}_new like {t}; insert into _{t}_new select * from {t} where id > 10", "not a copy"),
    (
        "made_anew",
        "create table _{t}_gho like {t}; drop table _{t}_gho; create table _{t}_gho (id int primary key, v varchar(100))",
        "not a copy",
    ),
];

fn a_copy_that_may_differ_stops_its_table(server: &Server) -> anyhow::Result<()> {
    let schema = |name: &str| {
        let unique = if name == "unique_text" { ", unique key (v)" } else { "" };
        format!(
            "create table {name} (id int primary key, v varchar(100){unique}) character set utf8mb4; insert into {name} select i, concat('v', i) from {};",
            numbers(1, 30)
        )
    };
    let mut tables: Vec<&str> = REFUSED.iter().map(|(table, ..)| *table).collect();
    tables.extend(["begun_before", "reverted", "good"]);
    let mut schemas: String = tables.iter().map(|table| schema(table)).collect();
    schemas.push_str("create table parents (id int primary key); insert into parents values (3), (25), (1025);");
    let mut case = BinlogCase::on(server, "refused", &schemas, &tables)?;
    // One was begun before its table was followed.
    case.sql.run("create table _begun_gho like begun_before; alter table _begun_gho add w int")?;
    case.once_and_same(&tables)?;
    let swap = |table: &str, copy: &str| {
        format!(
            "rename table {table} to _{table}_del, {copy} to {table}; update {table} set id = id + 1000 where id = 25; drop table _{table}_del;"
        )
    };
    for (table, statements, _) in REFUSED {
        case.sql.run(&statements.replace("{t}", table))?;
        let copies = [format!("_{table}_gho"), format!("_{table}_new"), format!("{table}_next")];
        let made =
            copies.iter().find(|copy| statements.replace("{t}", table).contains(&format!("create table {copy}")));
        case.sql.run(&swap(table, made.context("a copy is made")?))?;
    }
    case.sql.run("insert into _begun_gho (id, v) select id, v from begun_before")?;
    case.sql.run(&swap("begun_before", "_begun_gho"))?;
    // There and back again.
    case.sql.run(
        "create table _reverted_gho like reverted; create table _reverted_ghc (id int); insert into _reverted_ghc values (1); insert into _reverted_gho select * from reverted;
         rename table reverted to _reverted_del, _reverted_gho to reverted; update reverted set v = 'lost' where id = 3;
         rename table reverted to _reverted_gho, _reverted_del to reverted; update good set v = 'good' where id = 3",
    )?;
    case.pipeline.finish(&["run", "--once"])?.expect_code(3)?;
    case.same(&["good"])?;
    for (table, _, why) in REFUSED {
        case.stopped(table, &["table swapped", "took its name", "calve reload", why])?;
    }
    case.stopped("begun_before", &["table swapped", "not a copy"])?;
    case.stopped("reverted", &["table swapped", "not a copy"])?;
    let stopped: Vec<&str> = tables.iter().copied().filter(|table| *table != "good").collect();
    case.reload(&stopped)?;
    case.once_and_same(&tables)?;
    case.pass()
}

/// Where it is not to be followed it is not, whatever the copy is like.
fn swaps_have_a_policy(server: &Server) -> anyhow::Result<()> {
    for (policy, code) in [("stop", 3), ("reload", 0)] {
        let mut case = BinlogCase::on(server, "swap_policy", &tables(), &["t", "good"])?;
        case.pipeline = case.pipeline.clone().with(&format!("schema_changes: {{swap: {policy}}}"));
        case.pipeline.once()?;
        for statement in Tool::Ghost.statements(&mut case, &MIGRATIONS[0], 0)? {
            case.sql.run(&statement)?;
        }
        case.pipeline.finish(&["run", "--once"])?.expect_code(code)?;
        if policy == "stop" {
            case.stopped("t", &["schema change held", "schema_changes.swap is stop", "_t_gho took its place"])?;
            case.reload(&["t"])?;
        }
        case.once_and_same(&["t", "good"])?;
        case.pass()?;
    }
    Ok(())
}

/// A pattern passes over what the tools leave beside the tables that it finds.
fn copies_are_not_selected_by_patterns(server: &Server) -> anyhow::Result<()> {
    let schema = format!(
        "{} create table _t_gho like t; create table _t_ghc like t; create table _t_del like t; create table _t_new like t; \
         create table __t_old like t; create table _u_new like t; create table news_new like t;",
        tables()
    );
    let mut case = BinlogCase::on(server, "patterns", &schema, &["*"])?;
    case.pipeline.once()?;
    let mut found: Vec<String> = case.pipeline.states()?.into_keys().collect();
    found.sort();
    let mut expected = case.names(&["_u_new", "good", "news_new", "t"]);
    expected.sort();
    ensure!(found == expected, "{found:?}");
    case.follow(&["t", "_t_gho"]);
    case.once_and_same(&["t", "_t_gho"])?;
    case.pass()
}

/// The tool itself, by Debian's package `percona-toolkit`.
fn the_real_percona_toolkit_is_followed(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "percona", &tables(), &["t", "good"])?;
    let calve = case.pipeline.start()?;
    await_same(&mut case, "t")?;
    let url = case.database.url(server.kind().superuser())?;
    for (n, alter) in
        ["add column w int, modify v varchar(200)", "change v title varchar(200), drop column gone, add column d date"]
            .into_iter()
            .enumerate()
    {
        let mut tool = percona(&url, case.database.name(), alter)?.spawn()?;
        let mut writer = case.connect()?;
        let mut row = 10_000 + 1000 * n;
        while tool.try_wait()?.is_none() {
            row += 1;
            writer.run(&format!(
                "insert into t (id, n) values ({row}, 0); update t set n = n + 1 where id in (3, {row}); delete from t where id = {}",
                row - 5
            ))?;
        }
        ensure!(tool.wait()?.success(), "pt-online-schema-change failed at '{alter}'");
        await_same(&mut case, "t").map_err(|error| error.context(alter))?;
    }
    let log = calve.log();
    ensure!(!log.contains("\"table stopped\""), "{log}");
    calve.terminate()?;
    case.pass()
}

fn percona(url: &str, database: &str, alter: &str) -> anyhow::Result<Command> {
    // `mysql://user:password@host:port/database`
    let address = url.split_once("://").context("a URL")?.1;
    let (user, host) = address.rsplit_once('@').context("a user")?;
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let host = host.split(['/', '?']).next().unwrap_or_default();
    let (host, port) = host.split_once(':').unwrap_or((host, "3306"));
    let mut tool = Command::new("pt-online-schema-change");
    tool.args([
        "--execute",
        "--no-check-alter",
        "--no-check-replication-filters",
        "--recursion-method",
        "none",
        "--charset",
        "utf8mb4",
    ])
    .args(["--chunk-size", "10", "--no-version-check", "--alter", alter])
    .arg(format!("h={host},P={port},u={user},p={password},D={database},t=t"))
    .stdout(std::process::Stdio::null());
    Ok(tool)
}

on_every_server!(
    followed_while_it_runs,
    followed_as_backlog,
    followed_over_restarts,
    a_copy_that_may_differ_stops_its_table,
    swaps_have_a_policy,
    copies_are_not_selected_by_patterns,
    the_real_percona_toolkit_is_followed,
);
on_every_version!(followed_with_full_metadata);
