-- A name that was another for a while.

-- before
create table t (id int primary key, a text);
insert into t values (1, 'a1'), (2, 'a2');

-- change
alter table t rename column a to b;
insert into t values (3, 'b3');

-- change
alter table t rename column b to a;
insert into t values (4, 'a4');

-- after
update t set a = 'after' where id = 1;
