-- What identifies rows in the log is widened and narrowed; the key stays.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b'), (3, 'c');

-- change
alter table t replica identity full;
update t set v = 'A' where id = 1;
update t set id = 20 where id = 2;

-- change
alter table t replica identity default;
update t set v = 'C' where id = 3;
delete from t where id = 20;

-- change
create unique index t_again on t (id);
alter table t replica identity using index t_again;
update t set id = 30 where id = 3;
insert into t values (4, 'd');

-- after
update t set v = 'after' where id = 30;
