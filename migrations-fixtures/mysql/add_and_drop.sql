-- A column that lives for a moment, with a row of its own and without.

-- before
create table t (id int primary key, v varchar(10));
insert into t values (1, 'a');

-- change
alter table t add brief int;
insert into t values (2, 'b', 2);
alter table t drop brief;
insert into t values (3, 'c');

-- change
alter table t add briefer int;
alter table t drop briefer;
insert into t values (4, 'd');

-- after
update t set v = 'after' where id = 2;
