-- An ALTER whose beginning and end are in the log apart, and one that failed between.
-- only: mariadb

-- before
create table t (id int primary key, v varchar(20), n int);
insert into t values (1, 'a', 1), (2, 'a', 2);
set binlog_alter_two_phase = 1;

-- change
alter table t add w int;
insert into t values (3, 'c', 3, 3);
alter table t modify n bigint;
update t set n = 5000000000 where id = 1;

-- change
-- fails
alter table t add x int, add unique (v);
insert into t values (4, 'd', 4, 4);
alter table t rename column w to x;
insert into t values (5, 'e', 5, 5);

-- after
update t set x = 9 where id = 2;
