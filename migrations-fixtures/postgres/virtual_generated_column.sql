-- A column that is computed when it is read is in no row.
-- only: postgres 18

-- before
create table t (id int primary key, a int, g int generated always as (a * 2));
insert into t (id, a) values (1, 1), (2, 2);

-- change
alter table t add column h int generated always as (a * 3) virtual, add column v text;
insert into t (id, a, v) values (3, 3, 'z');

-- change
-- fails
alter table t alter g set expression as (a * 5);
alter table t drop column h;
update t set a = 10 where id = 1;

-- after
delete from t where id = 2;
