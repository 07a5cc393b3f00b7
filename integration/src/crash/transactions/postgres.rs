//! Postgres: the tables, and the transactions upon them.

use super::{Kind, Script};
use crate::random::Random;
use crate::sql::Sql;

pub(super) const SCRIPT: Script = Script {
    schema: SCHEMA,
    namespace: "public",
    kinds: &[KINDS],
    settings: &[
        // A dead process's connection is noticed by a failed write, at the latest after this.
        ("wal_sender_timeout", "5s"),
        ("checkpoint_timeout", "30s"),
        // The least there is: transactions beyond it are sent while they are in progress.
        ("logical_decoding_work_mem", "64kB"),
    ],
    // Updates leave bodies alone, which the log then does not carry; what is found for them must be of the same moment.
    never: Some(("docs", "body is null or digest is null or md5(body) <> digest")),
    begin,
};

const SCHEMA: &str = "
    create type mood as enum ('sad', 'ok', 'happy');
    create table accounts (id int primary key, balance bigint not null, touched timestamptz);
    create table ledger_a (id int primary key, balance bigint not null);
    create table ledger_b (id int primary key, balance bigint not null);
    create table mixed (
        id int primary key, small smallint, big bigint, amount numeric(12, 3), free numeric, d double precision, r real,
        flag boolean, bytes bytea, day date, at timestamp, instant timestamptz, clock time, u uuid, doc jsonb, note text, how mood, labels text[], counts bigint[]);
    create table docs (id int primary key, title text, body text, digest text, revision int, pieces text[]);
    alter table docs alter body set storage external, alter pieces set storage external;
    create table moves (a int, b text, v text, primary key (b, a));
    create table wiped (id bigint generated always as identity primary key, v text);
    create table wiped_child (id bigint primary key, parent bigint references wiped (id));
    create table quiet (id int primary key, v int);
    create table unfollowed (id bigint generated always as identity, v text);
    insert into accounts select i, 1000 from generate_series(1, 60) i;
    insert into ledger_a select i, 1000 from generate_series(1, 30) i;
    insert into ledger_b select i, 1000 from generate_series(1, 30) i;
    insert into docs select i, 'doc ' || i, repeat(md5(i::text), 320), md5(repeat(md5(i::text), 320)), 0 from generate_series(1, 20) i;
    update docs set pieces = (select array_agg(md5(docs.id || ' ' || j)) from generate_series(1, 200) j);
    insert into moves select i, 'x', 'start' from generate_series(1, 30) i;
    insert into quiet select i, 0 from generate_series(1, 5) i;
    grant all on all tables in schema public to calve;
    do $$ declare t text; begin
        foreach t in array array['accounts', 'ledger_a', 'ledger_b', 'mixed', 'docs', 'moves', 'wiped', 'wiped_child', 'quiet', 'unfollowed']
        loop execute format('alter table %I owner to calve', t); end loop; end $$;";

const KINDS: &[Kind] = &[
    Kind { name: "transfers", weight: 20, statements: transfer },
    Kind { name: "transfers across tables", weight: 15, statements: transfer_across },
    Kind { name: "inserts", weight: 15, statements: insert },
    Kind { name: "updates", weight: 15, statements: update },
    Kind { name: "deletes", weight: 6, statements: delete },
    Kind { name: "rolled back", weight: 5, statements: roll_back },
    Kind { name: "big", weight: 1, statements: big },
    Kind { name: "sent in progress", weight: 5, statements: in_progress },
    Kind { name: "documents", weight: 12, statements: document },
    Kind { name: "key changes", weight: 8, statements: key_change },
    Kind { name: "key swaps", weight: 8, statements: key_swap },
    Kind { name: "keys come and go", weight: 8, statements: come_and_go },
    Kind { name: "growth", weight: 10, statements: grow },
    Kind { name: "truncates", weight: 2, statements: truncate },
    Kind { name: "quiet", weight: 1, statements: quiet },
    Kind { name: "unfollowed", weight: 4, statements: unfollowed },
];

/// What is random within a statement follows from the writer's choices.
fn begin(sql: &mut Sql, random: &mut Random, _: u64) -> anyhow::Result<()> {
    sql.run(&format!("select setseed({}e-6)", random.below(1_000_000)))
}

/// A row of `mixed` under `id`, with NULLs here and there.
const MIXED_ROW: &str = "
    (random() * 60000 - 30000)::int::smallint, (random() * 9e15)::bigint, round((random() * 1e8 - 5e7)::numeric, 3),
    (random() * 1e6)::numeric / 7, random() * 1e10, random()::real, random() < 0.5, decode(md5(random()::text), 'hex'),
    date '1900-01-01' + (random() * 80000)::int, timestamp '2000-01-01' + random() * interval '30 years',
    case when random() < 0.8 then timestamptz '2000-01-01' + random() * interval '30 years' end,
    time '00:00' + random() * interval '23 hours', gen_random_uuid(), jsonb_build_object('n', random()),
    case when random() < 0.8 then md5(random()::text) end, (array['sad', 'ok', 'happy', null])[1 + (random() * 3)::int]::mood,
    case when random() < 0.8 then array[md5(random()::text), null, 'b \"c\"', ''] end, (array[(random() * 9e15)::bigint, null])[1:(random() * 2)::int]";

/// Ids of `mixed`: it is dense enough for updates to meet rows, and never grows beyond.
const MIXED_IDS: u64 = 2_000;

fn transfer(random: &mut Random, _: u64) -> String {
    let (amount, from, to) = (random.between(1, 100), random.between(1, 61), random.between(1, 61));
    format!(
        "begin; update accounts set balance = balance - {amount}, touched = now() where id = {from};
         update accounts set balance = balance + {amount}, touched = now() where id = {to}; commit"
    )
}

fn transfer_across(random: &mut Random, _: u64) -> String {
    let (amount, from, to) = (random.between(1, 200), random.between(1, 31), random.between(1, 31));
    let (debit, credit) = if random.chance(50) { ("ledger_a", "ledger_b") } else { ("ledger_b", "ledger_a") };
    format!(
        "begin; update {debit} set balance = balance - {amount} where id = {from};
         update {credit} set balance = balance + {amount} where id = {to}; commit"
    )
}

fn insert(random: &mut Random, _: u64) -> String {
    let (first, count) = (random.below(MIXED_IDS), random.between(1, 20));
    format!(
        "insert into mixed select i, {MIXED_ROW} from generate_series({first}, {first} + {count}) i on conflict do nothing"
    )
}

fn update(random: &mut Random, _: u64) -> String {
    let (first, count) = (random.below(MIXED_IDS), random.between(1, 60));
    format!(
        "update mixed set amount = amount + 1, note = md5(random()::text), doc = doc || '{{\"more\": [1, null]}}'
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
        "begin; delete from accounts where id < 30; truncate wiped cascade; rollback;
         begin; insert into mixed select {id}, {MIXED_ROW} on conflict do nothing; savepoint s;
         update mixed set note = 'never seen', big = -1 where id = {id}; update accounts set balance = 0; rollback to s;
         update mixed set note = 'seen' where id = {id}; commit"
    )
}

/// More rows than a checkpoint holds, in one transaction over several tables.
fn big(random: &mut Random, _: u64) -> String {
    let (amount, id) = (random.between(1, 50), random.between(1, 60));
    format!(
        "begin; update accounts set balance = balance - {amount} where id = {id};
         insert into mixed select i, {MIXED_ROW} from generate_series(0, {MIXED_IDS}) i on conflict do nothing;
         update mixed set note = 'big'; delete from mixed where id % 3 = 0; update mixed set flag = not flag;
         insert into mixed select i, {MIXED_ROW} from generate_series(0, {MIXED_IDS}, 6) i on conflict do nothing;
         update accounts set balance = balance + {amount} where id = {id} + 1; commit"
    )
}

/// More than the server keeps of a transaction before it sends it, with savepoints rolled back at several depths.
fn in_progress(random: &mut Random, _: u64) -> String {
    let (amount, id, first) = (random.between(1, 50), random.between(1, 60), random.below(MIXED_IDS));
    let count = random.between(100, 400);
    let rows = format!("id between {first} and {first} + {count}");
    let (inner, outer) = (
        random.pick(&["rollback to inner_one", "release inner_one"]),
        random.pick(&["rollback to outer_one", "release outer_one"]),
    );
    let end = random.pick(&["commit", "commit", "commit", "rollback"]);
    format!(
        "begin; update accounts set balance = balance - {amount} where id = {id};
         insert into mixed select i, {MIXED_ROW} from generate_series({first}, {first} + {count}) i on conflict do nothing;
         savepoint outer_one; update mixed set note = repeat('outer ', 20) where {rows};
         savepoint inner_one; delete from mixed where {rows} and id % 3 = 0; update mixed set big = -1, note = 'inner' where {rows}; {inner};
         insert into mixed select i, {MIXED_ROW} from generate_series({first}, {first} + {count}, 4) i on conflict do nothing; {outer};
         update mixed set flag = not flag where {rows};
         savepoint gone; update accounts set balance = 0; truncate wiped_child; rollback to gone;
         update accounts set balance = balance + {amount} where id = {id} + 1; {end}"
    )
}

fn document(random: &mut Random, _: u64) -> String {
    let id = random.between(1, 40);
    let more = random.below(u64::from(u32::MAX));
    match random.below(8) {
        0 => format!(
            "insert into docs select {id}, 'new', body, md5(body), 0
               from (select string_agg(md5(random()::text), '') body from generate_series(1, 320)) new on conflict do nothing"
        ),
        1 => format!("delete from docs where id = {id}"),
        2 => format!("update docs set body = body || '{more}', digest = md5(body || '{more}'), revision = revision + 1 where id = {id}"),
        3 => format!("begin; delete from docs where id = 1000 + {id}; update docs set id = 1000 + {id} where id = {id}; commit"),
        4 => format!(
            "begin; update docs set revision = revision + 1; update docs set id = -{id} where id = {id};
             update docs set id = {id} where id = {id} + 1; update docs set id = {id} + 1, title = 'traded' where id = -{id}; commit"
        ),
        _ => format!("update docs set title = md5(random()::text), revision = revision + 1 where id between {id} and {id} + 2"),
    }
}

fn key_change(random: &mut Random, _: u64) -> String {
    let (from, to) = (random.between(1, 60), random.between(1, 60));
    format!(
        "update moves set a = {to}, v = v || '>' where a = {from} and b = 'x'
         and not exists (select from moves where a = {to} and b = 'x')"
    )
}

fn key_swap(random: &mut Random, writer: u64) -> String {
    let one = random.between(1, 60);
    let other = one % 59 + 1;
    // A place of its own to put one key meanwhile, for each writer.
    let aside = 1_000 + writer;
    format!(
        "begin; update moves set a = {aside} where a = {one} and b = 'x'; update moves set a = {one} where a = {other} and b = 'x';
         update moves set a = {other}, v = left('swapped ' || v, 200) where a = {aside} and b = 'x'; commit"
    )
}

fn come_and_go(random: &mut Random, _: u64) -> String {
    let (a, b) = (random.between(1, 60), random.pick(&["x", "y"]));
    match random.below(4) {
        0 => format!("insert into moves values ({a}, '{b}', 'new') on conflict (b, a) do update set v = 'again'"),
        1 => format!("delete from moves where a = {a} and b = '{b}'"),
        2 => format!("begin; delete from moves where a = {a} and b = '{b}'; insert into moves values ({a}, '{b}', 'reborn'); commit"),
        _ => format!(
            "begin; delete from moves where a = {a} and b = '{b}'; insert into moves values ({a}, '{b}', 'short');
             update moves set v = 'shorter' where a = {a} and b = '{b}'; delete from moves where a = {a} and b = '{b}'; commit"
        ),
    }
}

fn grow(random: &mut Random, _: u64) -> String {
    let count = random.between(1, 10);
    format!(
        "with new as (insert into wiped (v) select md5(random()::text) from generate_series(1, {count}) returning id)
         insert into wiped_child select id, id from new where id % 2 = 0"
    )
}

fn truncate(random: &mut Random, _: u64) -> String {
    let after = match random.below(3) {
        0 => "",
        1 => "insert into wiped (v) values ('after')",
        _ => "insert into wiped (v) values ('after'), ('and'), ('gone'); delete from wiped where v = 'gone'",
    };
    let before = if random.chance(50) { "insert into wiped (v) values ('before')" } else { "" };
    let what = random.pick(&["wiped cascade", "wiped, wiped_child", "wiped_child"]);
    format!("begin; {before}; truncate {what}; {after}; commit")
}

fn quiet(random: &mut Random, _: u64) -> String {
    format!("update quiet set v = v + 1 where id = {}", random.between(1, 6))
}

fn unfollowed(_: &mut Random, _: u64) -> String {
    "insert into unfollowed (v) select repeat('x', 500) from generate_series(1, 20)".to_owned()
}
