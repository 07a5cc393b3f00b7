-- A copy in the new shape takes the name of the old table.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
create table t_new (id bigint primary key, v text, w text default 'filled');
insert into t_new (id, v) select id, v from t;
begin;
alter table t rename to t_old;
alter table t_new rename to t;
commit;
insert into t values (3, 'c');
drop table t_old;

-- after
update t set v = 'after' where id = 1;
