-- The same, where the old table is kept under another name: none of its rows tells of it.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
create table t_new (id int primary key, v text);
insert into t_new (id, v) select id, v from t;
begin;
alter table t rename to t_old;
alter table t_new rename to t;
commit;
insert into t values (3, 'c');

-- after
update t set v = 'after' where id = 1;
