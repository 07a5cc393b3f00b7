-- Where the session is not strict, NULLs become something else without a word.

-- before
create table t (id int primary key, a int);
insert into t values (1, null), (2, 2);
set sql_mode = '';

-- change
alter table t modify a int not null;
insert into t values (3, 3);

-- after
update t set a = 4 where id = 2;
