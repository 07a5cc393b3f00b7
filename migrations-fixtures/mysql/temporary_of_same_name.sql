-- A temporary table hides the real one in one session: what is done to it is nobody's business.

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'a');

-- change
create temporary table t (x int, y int);
alter table t add z int, drop y;
insert into t values (1, 1);
truncate table t;
drop temporary table t;
insert into t values (2, 'b');

-- change
alter table t add n int;
insert into t values (3, 'c', 3);

-- after
update t set n = 1 where id = 1;
