-- Indexes over expressions have hidden columns, which no row in the log has.
-- only: mysql

-- before
create table t (id int primary key, v varchar(20), n int);
insert into t values (1, 'a', 1), (2, 'b', 2);

-- change
alter table t add index f ((upper(v))), add index g ((n * 2));
insert into t values (3, 'c', 3);

-- change
alter table t add w int;
update t set w = 1 where id = 1;
alter table t drop index f;
insert into t values (4, 'd', 4, 4);

-- after
update t set v = 'after' where id = 2;
