-- The first column whose binary form is not understood: the stream goes on in text.
-- stream: text

-- before
create table t (id int primary key, v text, b bytea, at timestamptz);
insert into t values (1, 'a', '\x00ff', '2026-01-02 03:04:05.5+00');

-- change
create type mood as enum ('sad', 'ok');
alter table t add column m mood, add column net inet, add column tags text[];
update t set m = 'ok', net = '10.0.0.1/8', tags = '{a,"b c",NULL}' where id = 1;
insert into t values (2, 'b', '\x', '1999-12-31 23:59:59+00', 'sad', '::1', '{}');

-- after
update t set b = '\x01' where id = 1;
