-- Optional columns come at the end, in front and between, under rows of every state.

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'v1'), (2, 'v2'), (3, 'v3'), (4, 'v4'), (5, 'v5'), (6, 'v6');

-- change
update t set v = 'before' where id = 1;
delete from t where id = 2;
alter table t add note varchar(20);
update t set note = 'new' where id = 3;
update t set id = 40 where id = 4;
insert into t values (7, 'v7', 'seven');

-- change
alter table t add front date first, add price decimal(8, 2) default null after id;
update t set front = '2026-01-02', price = 1.5 where id in (3, 40);
delete from t where id = 5;

-- after
update t set note = 'after' where id = 1;
insert into t (id) values (8);
