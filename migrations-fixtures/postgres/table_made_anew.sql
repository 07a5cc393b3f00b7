-- Dropped and created again under the same name, of other columns.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
drop table t;
create table t (id int primary key, w int, v text);
insert into t values (1, 10, 'new');

-- after
insert into t values (2, 20, 'after');
