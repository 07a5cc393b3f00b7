-- Rows before and after the change in one transaction, of rows of every state.

-- before
create table t (id int primary key, v text, n int);
insert into t select i, 'v' || i, i from generate_series(1, 6) i;

-- change
begin;
insert into t values (7, 'before', 7);
update t set v = 'before' where id = 1;
delete from t where id = 2;
update t set id = 30 where id = 3;
alter table t add column w text;
update t set w = 'after' where id in (1, 7, 30);
delete from t where id = 4;
insert into t values (2, 'again', 2, 'w');
update t set id = 3 where id = 30;
commit;

-- change
begin;
update t set v = 'x' where id = 5;
alter table t rename column v to title;
update t set title = 'y' where id = 5;
alter table t drop column n;
update t set title = 'z' where id = 6;
commit;

-- after
update t set title = 'after' where id = 7;
