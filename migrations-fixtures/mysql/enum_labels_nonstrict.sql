-- A label that is none: the empty one, before and after labels come.

-- before
set sql_mode = '';
create table t (id int primary key, e enum('a', 'b'));
insert into t values (1, 'a'), (2, 'none');

-- change
alter table t modify e enum('a', 'b', 'none');
insert into t values (3, 'none'), (4, 'other');

-- after
update t set e = 'none' where id = 2;
