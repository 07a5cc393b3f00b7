-- Instant, in place, by copy: the log has the statement and no rows of it.

-- before
create table t (id int primary key, v varchar(20), n int);
insert into t values (1, 'a', 1), (2, 'b', 2);

-- change
alter table t add w int, algorithm = instant;
insert into t values (3, 'c', 3, 3);
alter table t add x int, algorithm = inplace, lock = none;
insert into t values (4, 'd', 4, 4, 4);

-- change
alter table t add y int, algorithm = copy;
update t set y = 5 where id = 1;
alter table t modify n bigint, algorithm = copy, lock = shared;
update t set n = 5000000000 where id = 2;
alter table t drop w, algorithm = inplace;
insert into t values (5, 'e', 5, 5, 5);

-- after
update t set x = 9 where id = 3;
