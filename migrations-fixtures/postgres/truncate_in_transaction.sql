-- The table is emptied within the transaction of the change.

-- before
create table t (id int primary key, v text, n int);
insert into t values (1, 'a', 1), (2, 'b', 2);

-- change
begin;
insert into t values (4, 'd', 4);
alter table t rename column n to m;
truncate t;
insert into t (id, m) values (5, 5), (1, 1);
commit;

-- change
begin;
update t set v = 'before' where id = 5;
truncate t;
alter table t drop column v;
insert into t values (6, 6);
truncate t;
insert into t values (7, 7);
commit;

-- after
insert into t values (8, 8);
delete from t where id = 7;
