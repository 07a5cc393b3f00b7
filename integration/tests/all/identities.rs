//! Which tables can be replicated at all, and that asking never harms the source.

use anyhow::ensure;

use crate::case::{Case, complains};

/// Refused at `check` with the way out, by `run` too, and the source's own updates never start to fail.
fn refused(label: &str, schema: &str, table: &str, says: &[&str], harmless: &str) -> anyhow::Result<Case> {
    let mut case = Case::new(label, schema, &[table])?;
    let check = case.pipeline.finish(&["check"])?.expect_code(2)?;
    for part in says {
        ensure!(check.stdout.contains(part), "check does not say {part:?}:\n{}", check.stdout);
    }
    complains(&case.pipeline.finish(&["run", "--once"])?, 2, says)?;
    case.sql.run(harmless)?;
    let published =
        format!("select count(*) from pg_publication_tables where schemaname || '.' || tablename = '{table}'");
    ensure!(case.sql.value(&published)? == "0", "{table} was published though it was refused");
    Ok(case)
}

#[test]
fn a_table_without_a_key() -> anyhow::Result<()> {
    let schema = "create table t (id int, v text); insert into t values (1, 'a'), (1, 'a')";
    refused(
        "keyless",
        schema,
        "public.t",
        &["public.t", "no key", "PRIMARY KEY"],
        "update t set v = 'b'; delete from t",
    )?
    .pass()
}

#[test]
fn identity_full_is_no_key() -> anyhow::Result<()> {
    let schema = "create table t (id int, v text); alter table t replica identity full; insert into t values (1, 'a')";
    refused("full_keyless", schema, "public.t", &["public.t", "no key"], "update t set v = 'b'; delete from t")?.pass()
}

#[test]
fn identity_nothing() -> anyhow::Result<()> {
    let schema = "create table t (id int primary key, v text); alter table t replica identity nothing; insert into t values (1, 'a')";
    refused(
        "nothing",
        schema,
        "public.t",
        &["public.t", "NOTHING", "REPLICA IDENTITY DEFAULT"],
        "update t set v = 'b'",
    )?
    .pass()
}

#[test]
fn a_deferrable_key() -> anyhow::Result<()> {
    let schema = "create table t (id int primary key deferrable initially deferred, v text); insert into t values (1, 'a'), (2, 'b')";
    refused("deferrable", schema, "public.t", &["public.t", "deferrable"], "update t set id = 3 - id")?.pass()
}

#[test]
fn a_floating_point_key() -> anyhow::Result<()> {
    let schema = "create table t (x double precision primary key, v text); insert into t values (0.1, 'a')";
    refused("float_key", schema, "public.t", &["public.t", "floating"], "update t set v = 'b'")?.pass()
}

#[test]
fn an_unlogged_table_and_a_view() -> anyhow::Result<()> {
    let schema = "create unlogged table u (id int primary key); create table t (id int primary key); create view w as select * from t";
    refused("unlogged", schema, "public.u", &["public.u", "unlogged"], "insert into u values (1)")?.pass()?;
    let case = Case::new("view", schema, &["public.w"])?;
    let finished = case.pipeline.finish(&["check"])?;
    ensure!(
        finished.code == Some(2) && format!("{}{}", finished.stdout, finished.stderr).contains("public.w"),
        "{finished:?}"
    );
    case.pass()
}

/// Everything that is wrong is told at once, each with the statement that mends it; run after they were applied, it is well.
#[test]
fn all_problems_at_once() -> anyhow::Result<()> {
    let schema = "
        create table keyless (id int not null, v text);
        create table silent (id int primary key); alter table silent replica identity nothing;
        create table late (id int primary key deferrable);
        create table good (id int primary key);";
    let mut case = Case::new("all_at_once", schema, &["public.*"])?;
    let check = case.pipeline.finish(&["check"])?.expect_code(2)?;
    for part in ["public.keyless", "public.silent", "public.late", "not ready: 3"] {
        ensure!(check.stdout.contains(part), "check does not say {part:?}:\n{}", check.stdout);
    }
    case.sql.run(
        "alter table keyless add primary key (id); alter table silent replica identity default;
         alter table late drop constraint late_pkey, add primary key (id)",
    )?;
    let check = case.pipeline.finish(&["check"])?.expect_success()?;
    ensure!(check.stdout.contains("ready: 4 tables"), "{}", check.stdout);
    case.once_and_same(&["public.keyless", "public.silent", "public.late", "public.good"])?;
    case.pass()
}

#[test]
fn identity_by_an_index_is_a_key() -> anyhow::Result<()> {
    let schema = "
        create table t (id int primary key, code text not null, part int not null, v text);
        create unique index by_code on t (part, code);
        alter table t replica identity using index by_code;
        insert into t select i, 'c' || i, i % 3, 'v' from generate_series(1, 30) i;";
    let mut case = Case::new("by_index", schema, &["public.t"])?;
    case.once_and_same(&["public.t"])?;
    case.sql.run(
        "update t set v = 'w' where id < 10; update t set code = 'new' where id = 11; update t set id = id + 100 where id = 12;
         delete from t where id = 13; update t set part = 9 where id = 14",
    )?;
    case.once_and_same(&["public.t"])?;
    case.same_by_spark(&["public.t"])?;
    case.pass()
}

#[test]
fn row_security_hides_nothing_silently() -> anyhow::Result<()> {
    let schema = "create table t (id int primary key, owner text); insert into t select i, case when i % 2 = 0 then 'calve' else 'other' end
         from generate_series(1, 20) i; create policy own on t using (owner = current_user); alter table t enable row level security;";
    let mut case = Case::new("security", schema, &["public.t"])?;
    // An owner is not subject to it.
    case.once_and_same(&["public.t"])?;
    case.sql.run("alter table t force row level security; insert into t values (100, 'calve')")?;
    let check = case.pipeline.finish(&["check"])?.expect_code(2)?;
    ensure!(check.stdout.contains("row-level security") && check.stdout.contains("public.t"), "{}", check.stdout);
    case.pass()
}
