-- The type of a key decides how its deletes are written: it is read again.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
alter table t alter id type bigint;
insert into t values (5000000000, 'c');
delete from t where id = 2;

-- after
update t set v = 'after' where id in (1, 5000000000);
