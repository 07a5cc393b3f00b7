//! Keys that the server takes for the same and that are written differently. Every type that can be a key is `matrix`'s.

use calve_testkit::servers::Server;

use super::{BinlogCase, on_every_server};

/// Keys that the server takes for the same: one row takes the other's place, and the lake has just the one that is there.
fn keys_that_differ_in_case_and_blanks_are_the_servers(server: &Server) -> anyhow::Result<()> {
    let schema = "
        create table folded (k varchar(9) character set utf8mb4 collate utf8mb4_general_ci primary key, v int);
        create table accents (k varchar(9) character set utf8mb4 collate utf8mb4_unicode_ci, n int, v int, primary key (n, k));
        create table padded (k char(6) character set latin1 primary key, v int);
        create table exact_ (k varchar(9) character set utf8mb4 collate utf8mb4_bin primary key, v int);
        create table swedish (k varchar(9) character set latin1 collate latin1_swedish_ci primary key, v int);
        insert into folded values ('A', 1), ('b', 1), ('c ', 1), ('D', 1);
        insert into accents values ('e', 1, 1), ('o', 1, 1), ('\u{df}', 1, 1);
        insert into padded values ('a  ', 1), ('b', 1), ('', 1);
        insert into exact_ values ('a', 1), ('A', 1), ('\u{e4}', 1);
        insert into swedish values ('Gr\u{fc}n', 1), ('x', 1);";
    let tables = ["folded", "accents", "padded", "exact_", "swedish"];
    let mut case = BinlogCase::on(server, "collations", schema, &tables)?;
    case.once_and_same(&tables)?;
    let changes = "
        update folded set k = 'a' where k = 'A'; update folded set v = 2 where k = 'B'; replace into folded values ('C', 5);
        delete from folded where k = 'd'; insert into folded values ('d', 7);
        insert into folded values ('a ', 9) on duplicate key update v = 10, k = 'A ';
        update accents set k = '\u{e9}' where k = 'E'; replace into accents values ('\u{d6}', 1, 2);
        update accents set k = 'ss' where k = '\u{df}' and n = 1;
        update padded set k = 'A ' where k = 'a'; replace into padded values ('B   ', 2); update padded set v = 3 where k = '  ';
        delete from exact_ where k = 'a'; insert into exact_ values ('a', 3), ('\u{c4}', 1); update exact_ set k = 'b' where k = 'A';
        update swedish set k = 'GR\u{dc}N' where k = 'gr\u{fc}n'; replace into swedish values ('X', 2);";
    case.sql.run(changes)?;
    case.once_and_same(&tables)?;
    // All of it again by a running calve, in small checkpoints.
    let calve = case.pipeline.clone().checkpoint("interval", "1ms").start()?;
    case.sql.run(
        "update folded set k = lower(k); update folded set k = upper(k); update padded set k = upper(k);
         update swedish set k = lower(k); update accents set k = upper(k)",
    )?;
    case.await_same(&tables)?;
    calve.terminate()?;
    // What is read whole says the same as what was followed.
    case.reload(&tables)?;
    case.once_and_same(&tables)?;
    case.same_by_spark(&tables)?;
    case.pass()
}

on_every_server!(keys_that_differ_in_case_and_blanks_are_the_servers);
