-- Defaults are for rows to come, which carry their values.

-- before
create table t (id int primary key, v text default 'old', n int);
insert into t (id) values (1), (2);

-- change
alter table t alter v set default 'new';
insert into t (id) values (3);

-- change
alter table t alter v drop default, alter n set default 5;
insert into t (id) values (4);

-- after
update t set v = default, n = default where id = 1;
