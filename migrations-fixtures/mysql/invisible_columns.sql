-- Columns that SELECT * does not show are columns all the same.

-- before
create table t (id int primary key, v varchar(10), hidden int invisible);
insert into t (id, v, hidden) values (1, 'a', 1), (2, 'b', null);

-- change
alter table t add more varchar(10) invisible;
insert into t (id, v, hidden, more) values (3, 'c', 3, 'm');

-- change
alter table t modify hidden int, modify v varchar(10) invisible;
insert into t (id, hidden, v) values (4, 4, 'd');

-- after
update t set more = 'after' where id = 1;
