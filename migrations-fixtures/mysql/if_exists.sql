-- Changes that are made only where there is something to change.
-- only: mariadb

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'a'), (2, 'b');

-- change
alter table t add column if not exists v int, add column if not exists w int;
insert into t values (3, 'c', 3);
alter table if exists t drop column if exists nothing, modify column if exists w bigint, change column if exists nothing x int;
insert into t values (4, 'd', 5000000000);

-- change
alter table t rename column if exists w to x, drop column if exists v;
insert into t values (5, 5);
alter table if exists nothing add column y int;
alter table t wait 5 add column y int;
insert into t values (6, 6, 6);

-- after
update t set x = 9 where id = 1;
