-- A table that keeps its new name is gone under the old one.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a');

-- change
alter table t rename to elsewhere;
insert into elsewhere values (2, 'b');

-- after
insert into elsewhere values (3, 'c');
