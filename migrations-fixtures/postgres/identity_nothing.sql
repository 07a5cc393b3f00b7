-- No identity at all, and back.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a');

-- change
alter table t replica identity nothing;
insert into t values (2, 'b');

-- change
alter table t replica identity default;
insert into t values (3, 'c');
update t set v = 'A' where id = 1;

-- after
delete from t where id = 2;
