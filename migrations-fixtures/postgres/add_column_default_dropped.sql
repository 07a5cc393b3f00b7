-- The usual way round a long lock: NULL first, filled by an update, then the default and NOT NULL.

-- before
create table t (id int primary key, v text);
insert into t select i, 'v' || i from generate_series(1, 5) i;

-- change
alter table t add column n int;
insert into t (id, v) values (6, 'v6');

-- change
update t set n = id * 10;

-- change
alter table t alter n set default 7;
insert into t (id, v) values (7, 'v7');
alter table t alter n set not null;
insert into t (id, v) values (8, 'v8');

-- after
update t set v = 'after' where id = 1;
