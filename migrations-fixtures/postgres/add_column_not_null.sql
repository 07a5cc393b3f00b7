-- NOT NULL with a default is as a default; on an empty table no row is the worse for it, yet the log does not tell that.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a');
create table empty (id int primary key, v text);

-- change
alter table t add column n int not null default 0;
insert into t values (2, 'b', 2);
alter table empty add column n int not null;
insert into empty values (1, 'a', 1);

-- after
update t set n = 3 where id = 1;
update empty set n = 3 where id = 1;
