-- A column that is gone again before its rows are read: seen while it lived, or not at all.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
alter table t add column brief int;
insert into t values (3, 'c', 3);

-- change
alter table t drop column brief;
insert into t values (4, 'd');

-- after
update t set v = 'after' where id = 3;
