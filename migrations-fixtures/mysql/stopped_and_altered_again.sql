-- A stopped table is altered further; read again it has all of it.

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'a'), (2, 'b');

-- change
alter table t add n int default 1;
insert into t values (3, 'c', 3);

-- change
alter table t drop v;
insert into t values (4, 4);

-- change
alter table t add v decimal(6,2), modify n bigint;
insert into t values (5, 5000000000, 1.25);

-- after
alter table t add late varchar(10);
update t set n = 6, late = 'x' where id = 1;
