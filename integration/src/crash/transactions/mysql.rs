//! MySQL and MariaDB: the tables, and the transactions upon them.
//!
//! TRUNCATE commits by itself here, and what is prepared by XA outlives its connection and the server: a writer decides
//! about what it left behind as soon as it is back.

use calve_testkit::servers::Kind as ServerKind;

use super::{DATABASE, Kind, Script};
use crate::random::Random;
use crate::sql::Sql;

pub(super) const MYSQL: Script = Script {
    schema: SCHEMA,
    namespace: DATABASE,
    kinds: &[KINDS, MYSQL_KINDS],
    settings: SETTINGS,
    never: None,
    begin,
};

pub(super) const MARIADB: Script = Script {
    schema: SCHEMA,
    namespace: DATABASE,
    kinds: &[KINDS, MARIADB_KINDS],
    settings: SETTINGS,
    never: None,
    begin,
};

const SETTINGS: &[(&str, &str)] = &[
    // A transaction that waits for one that is prepared is given up, not the round.
    ("innodb_lock_wait_timeout", "2"),
    // The log goes on in another file now and then, between transactions of any kind.
    ("max_binlog_size", "1M"),
];

/// Beside the tables a database that nobody follows, with numbers in it: neither server has a function for them.
const SCHEMA: &str = "
    create database numbers;
    create table numbers.digit (d int primary key);
    insert into numbers.digit values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
    create table numbers.n (i int primary key);
    insert into numbers.n select a.d + 10 * b.d + 100 * c.d + 1000 * e.d
        from numbers.digit a, numbers.digit b, numbers.digit c, numbers.digit e;
    create table accounts (id int primary key, balance bigint not null, touched timestamp(6) null);
    create table ledger_a (id int primary key, balance bigint not null);
    create table ledger_b (id int primary key, balance bigint not null);
    create table mixed (
        id int primary key, tiny tinyint, utiny tinyint unsigned, small smallint, medium mediumint, umedium mediumint unsigned,
        big bigint, ubig bigint unsigned, amount decimal(12, 3), wide decimal(50, 10), d double, r float, flag bit(1), mask bit(40),
        bytes varbinary(64), fixed binary(8), day date, at datetime(6), instant timestamp(3) null, clock time(3), y year, code char(8),
        latin varchar(60) character set latin1, note text, how enum('sad', 'ok', 'happy'), tags set('red', 'green', 'blue'), doc json);
    create table docs (id int primary key, title text, body longtext, revision int);
    create table moves (a int, b varchar(10), v varchar(300), primary key (b, a));
    create table wiped (id bigint auto_increment primary key, v text);
    create table wiped_child (id bigint primary key, parent bigint);
    create table quiet (id int primary key, v int);
    create table unfollowed (id bigint auto_increment primary key, v text);
    insert into accounts select i, 1000, null from numbers.n where i between 1 and 60;
    insert into ledger_a select i, 1000 from numbers.n where i between 1 and 30;
    insert into ledger_b select i, 1000 from numbers.n where i between 1 and 30;
    insert into docs select i, concat('doc ', i), repeat(sha2(i, 256), 160), 0 from numbers.n where i between 1 and 20;
    insert into moves select i, 'x', 'start' from numbers.n where i between 1 and 30;
    insert into quiet select i, 0 from numbers.n where i between 1 and 5";

const KINDS: &[Kind] = &[
    Kind { name: "transfers", weight: 20, statements: transfer },
    Kind { name: "transfers across tables", weight: 15, statements: transfer_across },
    Kind { name: "transfers by XA", weight: 6, statements: transfer_by_xa },
    Kind { name: "XA across tables", weight: 4, statements: xa_across },
    Kind { name: "XA rolled back", weight: 3, statements: xa_rolled_back },
    Kind { name: "XA held", weight: 1, statements: xa_held },
    Kind { name: "inserts", weight: 15, statements: insert },
    Kind { name: "replaces", weight: 5, statements: replace },
    Kind { name: "updates", weight: 15, statements: update },
    Kind { name: "deletes", weight: 6, statements: delete },
    Kind { name: "rolled back", weight: 5, statements: roll_back },
    Kind { name: "big", weight: 1, statements: big },
    Kind { name: "documents", weight: 12, statements: document },
    Kind { name: "key changes", weight: 8, statements: key_change },
    Kind { name: "key swaps", weight: 8, statements: key_swap },
    Kind { name: "keys come and go", weight: 8, statements: come_and_go },
    Kind { name: "growth", weight: 10, statements: grow },
    Kind { name: "truncates", weight: 2, statements: truncate },
    Kind { name: "log rotations", weight: 1, statements: rotate },
    Kind { name: "quiet", weight: 1, statements: quiet },
    Kind { name: "unfollowed", weight: 4, statements: unfollowed },
];

const MYSQL_KINDS: &[Kind] = &[
    Kind { name: "compressed", weight: 3, statements: compressed_transaction },
    Kind { name: "partial JSON", weight: 3, statements: partial_json },
];

const MARIADB_KINDS: &[Kind] = &[Kind { name: "compressed", weight: 3, statements: compressed_events }];

/// What is random within a statement follows from the writer's choices; what it left prepared is decided by one.
fn begin(sql: &mut Sql, random: &mut Random, writer: u64) -> anyhow::Result<()> {
    let (one, other) = (random.below(1 << 30), random.below(1 << 30));
    sql.run(&format!("set rand_seed1 = {one}, rand_seed2 = {other}"))?;
    // (format, length of the global part, length of the branch, both parts)
    for row in sql.rows("xa recover")? {
        if let Some(id) = row[3].as_deref().filter(|id| id.starts_with(&format!("w{writer}-"))) {
            // MariaDB that was killed can have prepared a transaction that its log does not hold; committed, its rows would
            // be in no log.
            let commits = random.chance(50) && sql.kind() != ServerKind::MariaDb && !id.contains(NEVER);
            let decision = if commits { "commit" } else { "rollback" };
            let id = sql.literal(id);
            sql.run(&format!("xa {decision} {id}"))?;
        }
    }
    Ok(())
}

/// A row of `mixed` after its `id`, with NULLs here and there. MySQL 9 has no `md5` any more.
const MIXED_ROW: &str = "
    floor(rand() * 256) - 128, floor(rand() * 256), floor(rand() * 65536) - 32768, floor(rand() * 16777216) - 8388608,
    floor(rand() * 16777216), cast(conv(substr(sha2(rand(), 256), 1, 16), 16, -10) as signed),
    cast(conv(substr(sha2(rand(), 256), 1, 16), 16, 10) as unsigned), round(rand() * 1e8 - 5e7, 3),
    cast(concat(floor(rand() * 1e9), floor(rand() * 1e9), '.', floor(rand() * 1e9)) as decimal(50, 10)), rand() * 1e10, rand(),
    cast(floor(rand() * 2) as unsigned), cast(floor(rand() * 1099511627776) as unsigned), unhex(sha2(rand(), 256)),
    unhex(substr(sha2(rand(), 256), 1, 2 * floor(1 + rand() * 8))), date_add('1900-01-01', interval floor(rand() * 80000) day),
    date_add('2000-01-01 00:00:00.000000', interval floor(rand() * 9e14) microsecond),
    if(rand() < 0.8, from_unixtime(1 + round(rand() * 2e9, 3)), null), sec_to_time(round(rand() * 86399, 3)), floor(1901 + rand() * 250),
    substr(sha2(rand(), 256), 1, floor(rand() * 9)), concat('caf\u{e9} ', left(sha2(rand(), 256), 40)),
    if(rand() < 0.8, concat(sha2(rand(), 256), ' \u{e9}\u{2603}\u{1f600}'), null), elt(1 + floor(rand() * 4), 'sad', 'ok', 'happy', null),
    cast(floor(rand() * 8) as unsigned), json_object('n', floor(rand() * 1e6), 's', sha2(rand(), 256), 'a', json_array(1, null, 'x'))";

/// Ids of `mixed`: it is dense enough for updates to meet rows, and never grows beyond.
const MIXED_IDS: u64 = 2_000;

fn transfer(random: &mut Random, _: u64) -> String {
    let (amount, from, to) = (random.between(1, 100), random.between(1, 61), random.between(1, 61));
    format!("begin; {}; commit", transfer_statements(amount, from, to))
}

fn transfer_statements(amount: u64, from: u64, to: u64) -> String {
    format!(
        "update accounts set balance = balance - {amount}, touched = now(6) where id = {from};
         update accounts set balance = balance + {amount}, touched = now(6) where id = {to}"
    )
}

fn transfer_across(random: &mut Random, _: u64) -> String {
    format!("begin; {}; commit", across_statements(random))
}

fn across_statements(random: &mut Random) -> String {
    let (amount, from, to) = (random.between(1, 200), random.between(1, 31), random.between(1, 31));
    let (debit, credit) = if random.chance(50) { ("ledger_a", "ledger_b") } else { ("ledger_b", "ledger_a") };
    format!(
        "update {debit} set balance = balance - {amount} where id = {from};
         update {credit} set balance = balance + {amount} where id = {to}"
    )
}

/// In the names of prepared transactions that must never be committed, whoever decides them.
const NEVER: &str = "never";

/// `statements` prepared under a name of the writer's own that holds `mark`, then `decided`.
fn by_xa(random: &mut Random, writer: u64, mark: &str, statements: &str, decided: &str) -> String {
    let id = format!("'w{writer}-{mark}{}'", random.below(1 << 40));
    let decided = decided.replace("ID", &id);
    format!("xa start {id}; {statements}; xa end {id}; xa prepare {id}; {decided}")
}

fn transfer_by_xa(random: &mut Random, writer: u64) -> String {
    let (amount, from, to) = (random.between(1, 100), random.between(1, 61), random.between(1, 61));
    by_xa(random, writer, "", &transfer_statements(amount, from, to), "xa commit ID")
}

fn xa_across(random: &mut Random, writer: u64) -> String {
    let statements = across_statements(random);
    by_xa(random, writer, "", &statements, "xa commit ID")
}

fn xa_rolled_back(random: &mut Random, writer: u64) -> String {
    let first = random.below(MIXED_IDS);
    let statements = format!(
        "update accounts set balance = 0 where id < 5; update mixed set note = 'never seen' where id between {first} and {first} + 20"
    );
    by_xa(random, writer, NEVER, &statements, "xa rollback ID")
}

/// Prepared for longer than most processes of calve live here.
fn xa_held(random: &mut Random, writer: u64) -> String {
    let statements = across_statements(random);
    let held_ms = random.between(300, 1_500);
    let decision = if random.chance(70) { "commit" } else { "rollback" };
    by_xa(random, writer, "", &statements, &format!("do sleep({held_ms}e-3); xa {decision} ID"))
}

fn insert(random: &mut Random, _: u64) -> String {
    let (first, count) = (random.below(MIXED_IDS), random.between(1, 20));
    format!(
        "insert ignore into mixed select i, {MIXED_ROW} from numbers.n where i between {first} and {first} + {count}"
    )
}

/// Rows that are there are deleted and inserted, or updated, by the server itself.
fn replace(random: &mut Random, _: u64) -> String {
    let (first, count) = (random.below(MIXED_IDS), random.between(1, 20));
    if random.chance(50) {
        format!("replace into mixed select i, {MIXED_ROW} from numbers.n where i between {first} and {first} + {count}")
    } else {
        format!(
            "insert into mixed select i, {MIXED_ROW} from numbers.n where i between {first} and {first} + {count}
             on duplicate key update note = 'met', small = values(small)"
        )
    }
}

fn update(random: &mut Random, _: u64) -> String {
    update_statement(random)
}

fn update_statement(random: &mut Random) -> String {
    let (first, count) = (random.below(MIXED_IDS), random.between(1, 60));
    format!(
        "update mixed set amount = amount + 1, note = sha2(rand(), 256), doc = json_set(doc, '$.more', json_array(1, null))
         where id between {first} and {first} + {count}"
    )
}

fn delete(random: &mut Random, _: u64) -> String {
    let (first, count) = (random.below(MIXED_IDS), random.between(1, 60));
    format!("delete from mixed where id between {first} and {first} + {count}")
}

fn roll_back(random: &mut Random, _: u64) -> String {
    let id = random.below(MIXED_IDS);
    format!(
        "begin; delete from accounts where id < 30; delete from wiped; rollback;
         begin; insert ignore into mixed select i, {MIXED_ROW} from numbers.n where i = {id}; savepoint s;
         update mixed set note = 'never seen', big = -1 where id = {id}; update accounts set balance = 0; rollback to s;
         update mixed set note = 'seen' where id = {id}; commit"
    )
}

/// More rows than a checkpoint holds, in one transaction over several tables.
fn big(random: &mut Random, _: u64) -> String {
    let (amount, id) = (random.between(1, 50), random.between(1, 60));
    format!(
        "begin; update accounts set balance = balance - {amount} where id = {id};
         insert ignore into mixed select i, {MIXED_ROW} from numbers.n where i <= {MIXED_IDS};
         update mixed set note = 'big'; delete from mixed where id % 3 = 0; update mixed set flag = not flag;
         insert ignore into mixed select i, {MIXED_ROW} from numbers.n where i <= {MIXED_IDS} and i % 6 = 0;
         update accounts set balance = balance + {amount} where id = {id} + 1; commit"
    )
}

fn document(random: &mut Random, _: u64) -> String {
    let id = random.between(1, 40);
    match random.below(6) {
        0 => format!("insert ignore into docs values ({id}, 'new', repeat(sha2(rand(), 256), 160), 0)"),
        1 => format!("delete from docs where id = {id}"),
        2 => format!("update docs set body = concat(body, sha2(rand(), 256)), revision = revision + 1 where id = {id}"),
        3 => format!(
            "begin; delete from docs where id = 1000 + {id}; update docs set id = 1000 + {id} where id = {id}; commit"
        ),
        _ => format!(
            "update docs set title = sha2(rand(), 256), revision = revision + 1 where id between {id} and {id} + 2"
        ),
    }
}

fn key_change(random: &mut Random, _: u64) -> String {
    let (from, to) = (random.between(1, 60), random.between(1, 60));
    format!("update ignore moves set a = {to}, v = left(concat(v, '>'), 200) where a = {from} and b = 'x'")
}

fn key_swap(random: &mut Random, writer: u64) -> String {
    let one = random.between(1, 60);
    let other = one % 59 + 1;
    // A place of its own to put one key meanwhile, for each writer.
    let aside = 1_000 + writer;
    format!(
        "begin; update moves set a = {aside} where a = {one} and b = 'x'; update moves set a = {one} where a = {other} and b = 'x';
         update moves set a = {other}, v = left(concat('swapped ', v), 200) where a = {aside} and b = 'x'; commit"
    )
}

fn come_and_go(random: &mut Random, _: u64) -> String {
    let (a, b) = (random.between(1, 60), random.pick(&["x", "y"]));
    match random.below(4) {
        0 => format!("insert into moves values ({a}, '{b}', 'new') on duplicate key update v = 'again'"),
        1 => format!("delete from moves where a = {a} and b = '{b}'"),
        2 => format!(
            "begin; delete from moves where a = {a} and b = '{b}'; insert into moves values ({a}, '{b}', 'reborn'); commit"
        ),
        _ => format!(
            "begin; delete from moves where a = {a} and b = '{b}'; insert into moves values ({a}, '{b}', 'short');
             update moves set v = 'shorter' where a = {a} and b = '{b}'; delete from moves where a = {a} and b = '{b}'; commit"
        ),
    }
}

fn grow(random: &mut Random, _: u64) -> String {
    let count = random.between(1, 10);
    format!(
        "begin; insert into wiped (v) select sha2(rand(), 256) from numbers.n where i < {count};
         insert ignore into wiped_child select id, id from wiped where id >= last_insert_id() and id % 2 = 0; commit"
    )
}

/// A statement's own transaction each, and numbers that begin again at 1.
fn truncate(random: &mut Random, _: u64) -> String {
    let after = match random.below(3) {
        0 => "do 0",
        1 => "insert into wiped (v) values ('after')",
        _ => {
            "begin; insert into wiped (v) values ('after'), ('and'), ('gone'); delete from wiped where v = 'gone'; commit"
        }
    };
    let before = if random.chance(50) { "insert into wiped (v) values ('before')" } else { "do 0" };
    let what = random.pick(&["truncate wiped", "truncate table wiped_child", "truncate wiped; truncate wiped_child"]);
    format!("{before}; {what}; {after}")
}

fn rotate(_: &mut Random, _: u64) -> String {
    "flush binary logs".to_owned()
}

fn quiet(random: &mut Random, _: u64) -> String {
    format!("update quiet set v = v + 1 where id = {}", random.between(1, 6))
}

fn unfollowed(_: &mut Random, _: u64) -> String {
    "insert into unfollowed (v) select repeat('x', 500) from numbers.n where i < 20".to_owned()
}

/// MySQL: one event holds the whole transaction, compressed.
fn compressed_transaction(random: &mut Random, _: u64) -> String {
    let (one, other) = (update_statement(random), across_statements(random));
    format!(
        "set session binlog_transaction_compression = on; begin; {one}; {other}; commit;
         set session binlog_transaction_compression = off"
    )
}

/// MySQL: the log holds what changed in a document, not the document.
fn partial_json(random: &mut Random, _: u64) -> String {
    let (first, count) = (random.below(MIXED_IDS), random.between(1, 60));
    format!(
        "set session binlog_row_value_options = 'PARTIAL_JSON';
         update mixed set doc = json_set(doc, '$.s', sha2(rand(), 256)) where id between {first} and {first} + {count};
         update mixed set doc = json_remove(doc, '$.more') where id between {first} and {first} + 5;
         set session binlog_row_value_options = ''"
    )
}

/// MariaDB: rows are in events of kinds of their own, of whoever writes meanwhile too.
fn compressed_events(random: &mut Random, _: u64) -> String {
    let statement = update_statement(random);
    format!("set global log_bin_compress = on; {statement}; set global log_bin_compress = off")
}
