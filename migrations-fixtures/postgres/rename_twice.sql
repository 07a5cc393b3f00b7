-- The name in the middle is in no catalog any more when calve was away.

-- before
create table t (id int primary key, a text);
insert into t values (1, 'a1'), (2, 'a2');

-- change
alter table t rename column a to b;
insert into t values (3, 'b3');

-- change
alter table t rename column b to c;
insert into t values (4, 'c4');

-- after
update t set c = 'after' where id = 1;
