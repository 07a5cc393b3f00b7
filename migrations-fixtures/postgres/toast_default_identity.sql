-- A long value that an update did not touch is not in the log, whatever was altered before.

-- before
create table t (id int primary key, title text, body text);
alter table t alter body set storage external;
insert into t select i, 't' || i, repeat('body' || i || ' ', 1000) from generate_series(1, 3) i;

-- change
alter table t add column note text;
update t set note = 'n', body = repeat('whole ', 1000) where id = 1;

-- change
update t set note = 'body left out' where id = 2;

-- change
alter table t replica identity full;
update t set title = 'more' where id = 3;

-- after
update t set title = 'after' where id in (1, 2);
