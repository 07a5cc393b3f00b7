-- The usual way round a long lock: NULL first, filled by an update, then the default and NOT NULL.

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'v1'), (2, 'v2'), (3, 'v3');

-- change
alter table t add n int;
insert into t (id, v) values (4, 'v4');

-- change
update t set n = id * 10;
alter table t alter n set default 7;
insert into t (id, v) values (5, 'v5');

-- change
alter table t modify n int not null default 7;
insert into t (id, v) values (6, 'v6');

-- after
update t set v = 'after' where id = 1;
