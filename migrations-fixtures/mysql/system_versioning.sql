-- A table that begins to keep its history.
-- only: mariadb

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'a'), (2, 'b');
set system_versioning_alter_history = keep;

-- change
alter table t add system versioning;
insert into t values (3, 'c');

-- change
alter table t drop system versioning;
update t set v = 'A' where id = 1;

-- after
delete from t where id = 2;
