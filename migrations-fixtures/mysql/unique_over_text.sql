-- A unique key over a long text has a hidden column, which rows in the log have as well. Where the log does not name its
-- columns, the table cannot be followed while it has such a key, and says so.
-- only: mariadb

-- before
create table t (id int primary key, v text, n int);
insert into t values (1, 'a', 1), (2, 'b', 2);

-- change
alter table t add unique long_key (v);
insert into t values (3, repeat('c', 5000), 3);

-- change
alter table t add w int;
update t set w = 1 where id = 1;
alter table t drop index long_key;
insert into t values (4, 'd', 4, 4);

-- after
update t set v = 'after' where id = 2;
