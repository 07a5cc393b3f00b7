//! What a person does first: load, stream, stop, go on.

use calve_integration::binary;
use calve_integration::readers;
use calve_testkit::servers::{Postgres, REPLICATION_USER};

use crate::case::Case;

const SHOP: &str = "
    create table orders (id int primary key, customer text not null, amount numeric(12, 2), placed timestamptz default now());
    create table items (order_id int, line smallint, article text, count int, primary key (order_id, line));
    insert into orders select i, 'customer ' || i % 17, i * 1.25, now() from generate_series(1, 1000) i;
    insert into items select i, l, 'article ' || l, i % 5 from generate_series(1, 1000) i, generate_series(1, 3) l;";
const TABLES: [&str; 2] = ["public.orders", "public.items"];

fn load_stream_stop_and_go_on(version: u32) -> anyhow::Result<Case> {
    let server = Postgres::shared(version)?;
    let mut case = Case::on(&server, "first", SHOP, &TABLES)?;
    case.once_and_same(&TABLES)?;

    let calve = case.pipeline.start()?;
    case.sql.run("insert into orders select i, 'late', null from generate_series(1001, 1100) i")?;
    case.await_same(&TABLES)?;
    case.sql.run(
        "begin; update orders set amount = amount + 1 where id % 10 = 0; delete from items where order_id < 50;
         delete from orders where id < 50; commit",
    )?;
    case.await_same(&TABLES)?;
    calve.terminate()?;

    case.sql.run("update items set count = count + 1 where line = 2; delete from orders where id > 1090")?;
    case.once_and_same(&TABLES)?;
    // Nothing happened meanwhile, and nothing does.
    let before = case.lake().metadata("public", "orders")?.snapshots().len();
    case.once_and_same(&TABLES)?;
    assert_eq!(case.lake().metadata("public", "orders")?.snapshots().len(), before);
    Ok(case)
}

#[test]
fn postgres_15_is_followed_through_a_restart() -> anyhow::Result<()> {
    load_stream_stop_and_go_on(15)?.pass()
}

#[test]
fn postgres_17_is_followed_through_a_restart() -> anyhow::Result<()> {
    let mut case = load_stream_stop_and_go_on(17)?;
    case.same_by_spark(&TABLES)?;
    // One format, one key, as the readers are told.
    let described = readers::metadata(|reader| Ok(reader.describe(&case.lake().table("public", "items")?)?))?;
    assert_eq!(described["format_version"], 2);
    assert_eq!(described["identifier_field_ids"].as_array().map(Vec::len), Some(2), "{described}");
    case.pass()
}

#[test]
fn postgres_18_is_followed_through_a_restart() -> anyhow::Result<()> {
    load_stream_stop_and_go_on(18)?.pass()
}

#[test]
fn flags_alone_are_enough() -> anyhow::Result<()> {
    let mut case = Case::new("flags", SHOP, &TABLES)?;
    let source = case.database.url(REPLICATION_USER)?;
    let lake = case.lake().path().to_owned();
    let run = |more: &[&str]| {
        let mut command =
            binary::command(["run", "--source", &source, "--table", "public.orders", "--table", "public.items"])?;
        command.arg("--into").arg(&lake).args(more);
        binary::finish(command, &case.pipeline.log("run"))?.expect_success()
    };
    run(&["--once"])?;
    case.sql.run("delete from orders where id = 1; update items set count = 99 where order_id = 2")?;
    run(&["--once", "--checkpoint-interval", "50ms"])?;
    case.same(&TABLES)?;

    // The directory says the rest, but never the password.
    let mut status = binary::command(["status", "--json", "--into"])?;
    status.arg(&lake);
    let status = binary::finish(status, &case.pipeline.log("status"))?.expect_success()?;
    assert!(status.stdout.contains("public.items") && status.stdout.contains("streaming"), "{}", status.stdout);
    case.pass()
}
