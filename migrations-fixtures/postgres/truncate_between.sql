-- The table is emptied before, between and after changes.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
update t set v = 'A' where id = 1;
truncate t;
alter table t add column n int;
insert into t values (3, 'c', 3), (1, 'again', 1);

-- change
alter table t add column o int;
truncate t;
insert into t values (6, 'f', 6, 6);

-- change
truncate t;

-- after
insert into t values (7, 'g', 7, 7), (1, 'once more', null, 1);
delete from t where id = 7;
