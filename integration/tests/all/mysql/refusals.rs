//! Bad input: one line that says what to do, and an exit code that says what kind of thing it is; and never a password.

use std::path::Path;

use anyhow::ensure;
use calve_integration::binary::{self, Finished};
use calve_testkit::servers::{REPLICATION_USER, Server};

use super::{BinlogCase, on_every_server};
use crate::case::complains;

const ONE: &str =
    "create table t (id int primary key, v text); insert into t values (1, 'a'); create table keyless (v text);
    create view shown as select * from t; create table isam (id int primary key) engine = MyISAM;
    create table floating (k double primary key, v int);";

fn run_with(case: &BinlogCase, source: &str) -> anyhow::Result<Finished> {
    case.pipeline.clone().source(source).finish(&["run", "--once"])
}

fn the_address(server: &Server) -> anyhow::Result<()> {
    let case = BinlogCase::on(server, "address", ONE, &["t"])?;
    let url = case.database.url(REPLICATION_USER)?;
    complains(&run_with(&case, "mysql://calve:calve@127.0.0.1:1/x")?, 6, &["127.0.0.1:1", "refused"])?;
    complains(&run_with(&case, "mysql://calve:calve@nowhere.invalid/x")?, 6, &["nowhere.invalid"])?;
    complains(&run_with(&case, &url.replace("calve:calve", "calve:wrong"))?, 2, &["password", "calve"])?;
    complains(&run_with(&case, &url.replace("calve:calve", "calve"))?, 2, &["MYSQL_PWD"])?;
    complains(&run_with(&case, &url.replace("calve:calve", "nobody_at_all:x"))?, 2, &["nobody_at_all"])?;
    complains(&run_with(&case, &url.replace(case.database.name(), "no_such_database"))?, 2, &["no_such_database"])?;
    complains(&run_with(&case, &format!("{url}?ssl-mode=SOMETIMES"))?, 2, &["ssl-mode", "SOMETIMES"])?;
    complains(&run_with(&case, &format!("{url}?sslmode=require"))?, 2, &["sslmode", "not supported"])?;
    complains(&run_with(&case, &format!("{url}?ssl-mode=VERIFY_CA&ssl-ca=/no/such/file"))?, 2, &["/no/such/file"])?;
    complains(&run_with(&case, &url.replace("mysql://", "oracle://"))?, 2, &["oracle", "mysql://"])?;
    // A Postgres client at a MySQL server.
    let wrong = run_with(&case, &url.replace("mysql://", "postgres://"))?;
    ensure!([Some(2), Some(6)].contains(&wrong.code) && wrong.complaint().is_some(), "{wrong:?}");
    // MariaDB's own scheme, and TLS as asked for.
    case.pipeline.clone().source(&format!("{}?ssl-mode=REQUIRED", url.replace("mysql://", "mariadb://"))).once()?;
    case.pipeline.clone().source(&format!("{url}?ssl-mode=DISABLED")).finish(&["status"])?;
    case.pass()
}

fn the_tables(server: &Server) -> anyhow::Result<()> {
    let mut case = BinlogCase::on(server, "tables", ONE, &["tt"])?;
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, &[&case.name("tt"), "does not exist", &case.name("t")])?;
    let none = case.pipeline.clone().tables(&["nowhere_at_all.*"]);
    complains(&none.finish(&["run", "--once"])?, 2, &["nowhere_at_all.*"])?;
    for (table, says) in [
        ("keyless", ["key", "ADD PRIMARY KEY"]),
        ("shown", ["view", "leave it out"]),
        ("isam", ["MyISAM", "ENGINE = InnoDB"]),
        ("floating", ["floating-point", "k"]),
    ] {
        case.follow(&[table]);
        let name = case.name(table);
        complains(&case.pipeline.finish(&["run", "--once"])?, 2, &[&name, says[0], says[1]])?;
    }
    let system = case.pipeline.clone().tables(&["mysql.user"]);
    complains(&system.finish(&["run", "--once"])?, 2, &["mysql.user", "system"])?;
    case.pass()
}

fn the_options(server: &Server) -> anyhow::Result<()> {
    let case = BinlogCase::on(server, "options", ONE, &["t"])?;
    for option in ["slot: mine", "publication: mine", "manage_publication: false"] {
        let name = option.split(':').next().unwrap_or_default();
        complains(
            &case.pipeline.clone().with(option).finish(&["run", "--once"])?,
            2,
            &[name, "Postgres", "leave it out"],
        )?;
    }
    for wrong in ["0", "-1", "4294967296", "many"] {
        let given = case.pipeline.clone().with(&format!("server_id: {wrong}"));
        complains(&given.finish(&["run", "--once"])?, 2, &["server_id", wrong])?;
    }
    for (option, says) in [
        ("on_zero_date: nul", ["on_zero_date: 'nul'", "did you mean 'null'?"]),
        ("on_zero_date: errors", ["on_zero_date: 'errors'", "did you mean 'error'?"]),
        ("on_zero_date: clamp", ["on_zero_date: 'clamp'", "use null, or error"]),
        ("on_zero_dates: error", ["'on_zero_dates' is not an option", "did you mean 'on_zero_date'?"]),
        ("tinyint1_as_boolean: maybe", ["tinyint1_as_boolean: 'maybe'", "neither true nor false"]),
    ] {
        complains(&case.pipeline.clone().with(option).finish(&["run", "--once"])?, 2, &says)?;
    }
    case.pass()
}

/// Rights that are missing are named, by the statement that grants them.
fn the_rights(server: &Server) -> anyhow::Result<()> {
    let case = BinlogCase::on(server, "rights", ONE, &["t"])?;
    let user = format!("r{}", case.database.name());
    let user = &user[..user.len().min(30)];
    case.database.sql(&format!("create user {user}@'%' identified by '{user}'; grant select on *.* to {user}@'%'"))?;
    let poor = case.database.url(user)?;
    let finished = run_with(&case, &poor)?;
    ensure!(finished.code == Some(2), "{finished:?}");
    let complaint = finished.complaint().unwrap_or_default();
    ensure!(complaint.contains("calve check") || complaint.contains("GRANT"), "{complaint}");
    case.database.sql(&format!("drop user {user}@'%'"))?;
    case.pass()
}

const PASSWORD: &str = "pa55-Wort!Xq";
const SECRET_ROW: &str = "row-value-Zk7";

fn search(directory: &Path, needle: &str, found: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            search(&path, needle, found)?;
        } else if path.is_file() {
            let bytes = std::fs::read(&path)?;
            if bytes.windows(needle.len()).any(|window| window == needle.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    Ok(())
}

/// Passwords and rows are nobody's business: not in logs, errors, `status`, local state or process titles.
fn passwords_come_from_everywhere_and_appear_nowhere(server: &Server) -> anyhow::Result<()> {
    let schema =
        format!("create table t (id int primary key, v varchar(60)); insert into t values (1, '{SECRET_ROW}')");
    let mut case = BinlogCase::on(server, "secrets", &schema, &["t"])?;
    let user = format!("s{}", case.database.name());
    let user = user[..user.len().min(30)].to_owned();
    let monitor =
        if server.kind() == calve_testkit::servers::Kind::MySql { "replication client" } else { "binlog monitor" };
    case.database.sql(&format!(
        "create user {user}@'%' identified by '{PASSWORD}'; grant select, replication slave, {monitor} on *.* to {user}@'%'"
    ))?;
    let url = case.database.url(&user)?.replace(&format!("{user}:{user}@"), &format!("{user}@"));
    let pipeline = case.pipeline.clone().source(&url).variable("CALVE_LOG", "trace");

    // The environment, the user's own file, the configuration with a variable in it.
    pipeline.clone().variable("MYSQL_PWD", PASSWORD).once()?;
    case.sql.run(&format!("insert into t values (2, '{SECRET_ROW}')"))?;
    let home = calve_integration::directory::Directory::new("home")?;
    std::fs::write(home.path().join(".my.cnf"), format!("[client]\npassword=\"{PASSWORD}\"\n"))?;
    pipeline.clone().variable("HOME", &home.path().to_string_lossy()).once()?;
    case.sql.run(&format!("update t set v = concat(v, '{SECRET_ROW}')"))?;
    let with_password = url.replace(&format!("{user}@"), &format!("{user}:${{SECRET}}@"));
    let interpolated = pipeline.clone().source(&with_password).variable("SECRET", PASSWORD);
    let calve = interpolated.start()?;
    case.await_same(&["t"])?;
    let title = std::fs::read_to_string(format!("/proc/{}/cmdline", calve.id())).unwrap_or_default();
    ensure!(!title.contains(PASSWORD), "{title}");
    for words in [&["status"][..], &["status", "--json"], &["verify"]] {
        interpolated.finish(words)?.expect_success()?;
    }
    // Rows in statements of the log, which is read for what they do to tables.
    case.sql.run(&format!(
        "set session binlog_rows_query_log_events = 1; insert into t values (3, '{SECRET_ROW}'); create table x_ (v varchar(60) default '{SECRET_ROW}')"
    )).or_else(|_| case.sql.run(&format!("insert into t values (3, '{SECRET_ROW}')")))?;
    case.await_same(&["t"])?;
    calve.terminate()?;
    // Wrong now: the refusal must not repeat it.
    case.database.sql(&format!("alter user {user}@'%' identified by 'another'"))?;
    interpolated.finish(&["run", "--once"])?.expect_code(2)?;
    // On the command line it is the user's own doing, but it is stored nowhere.
    case.database.sql(&format!("alter user {user}@'%' identified by '{PASSWORD}'"))?;
    let mut flags = binary::command(["run", "--once", "--name", case.pipeline.name(), "--table", &case.name("t")])?;
    flags.args(["--source", &with_password.replace("${SECRET}", PASSWORD), "--into"]).arg(case.lake().path());
    binary::finish(flags, &case.pipeline.log("flags"))?.expect_success()?;

    let mut found = Vec::new();
    search(case.directory.path(), PASSWORD, &mut found)?;
    ensure!(found.is_empty(), "the password stands in {found:?}");
    search(case.directory.path(), SECRET_ROW, &mut found)?;
    found.retain(|path| !path.contains("/warehouse/"));
    ensure!(found.is_empty(), "a row's value stands in {found:?}");
    case.database.sql(&format!("drop user {user}@'%'"))?;
    case.pass()
}

on_every_server!(the_address, the_tables, the_options, the_rights, passwords_come_from_everywhere_and_appear_nowhere);
