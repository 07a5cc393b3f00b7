-- A type that changed more than once before its rows are read, each time to a wider one.

-- before
create table t (id int primary key, n smallint);
insert into t values (1, 1), (2, 2);

-- change
alter table t alter n type int;
insert into t values (3, 100000);

-- change
alter table t alter n type bigint;
insert into t values (4, 5000000000);

-- after
update t set n = 9 where id = 1;
