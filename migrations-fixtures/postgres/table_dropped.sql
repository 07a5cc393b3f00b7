-- A table that was dropped stays in the lake as it was.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a');

-- change
insert into t values (2, 'b');

-- change
drop table t;

-- after
select 1;
