-- The table is emptied before, between and after changes.

-- before
create table t (id int primary key, v varchar(10));
insert into t values (1, 'a'), (2, 'b');

-- change
update t set v = 'A' where id = 1;
truncate table t;
alter table t add n int;
insert into t values (3, 'c', 3), (1, 'again', 1);

-- change
alter table t rename column n to m;
truncate t;
insert into t values (6, 'f', 6);

-- change
truncate t;

-- after
insert into t values (7, 'g', 7), (1, 'once more', null);
delete from t where id = 7;
