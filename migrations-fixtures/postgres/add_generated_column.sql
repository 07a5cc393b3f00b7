-- Generated columns are not in the log and not in the lake.

-- before
create table t (id int primary key, a int, b int);
insert into t values (1, 1, 1), (2, 2, 2);

-- change
alter table t add column c int generated always as (a + b) stored;
insert into t values (3, 3, 3);
update t set a = 10 where id = 1;

-- change
alter table t drop column b cascade;
alter table t add column d text;
insert into t values (4, 4, 'd');

-- after
delete from t where id = 2;
update t set a = 11 where id = 3;
