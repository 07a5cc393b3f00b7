-- A table that keeps its new name is gone under the old one.

-- before
create table t (id int primary key, v varchar(10));
insert into t values (1, 'a');

-- change
alter table t add n int, rename to elsewhere;
insert into elsewhere values (2, 'b', 2);

-- after
insert into elsewhere values (3, 'c', 3);
