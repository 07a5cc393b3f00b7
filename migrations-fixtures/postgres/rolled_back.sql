-- What was rolled back never was, be it the whole transaction or a part of it.

-- before
create table t (id int primary key, v text, n int);
insert into t values (1, 'a', 1), (2, 'b', 2);

-- change
begin;
alter table t add column w text;
alter table t drop column n;
insert into t values (3, 'c', 'w');
rollback;
insert into t values (4, 'd', 4);

-- change
begin;
update t set v = 'kept' where id = 1;
savepoint s;
alter table t rename column v to gone;
update t set gone = 'gone' where id = 2;
rollback to s;
update t set n = 20 where id = 2;
commit;

-- change
begin;
savepoint s;
alter table t add column w text;
release s;
update t set w = 'released' where id = 1;
commit;

-- after
update t set w = 'after' where id = 4;
