-- A stopped table is altered further; read again it has all of it.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
alter table t add column n int default 1;
insert into t values (3, 'c', 3);

-- change
alter table t drop column v;
insert into t values (4, 4);

-- change
alter table t add column v numeric(6, 2), alter n type bigint, alter n drop default;
insert into t values (5, 5000000000, 1.25);

-- after
alter table t add column late text;
update t set n = 6, late = 'x' where id = 1;
