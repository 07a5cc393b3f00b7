-- A default fills the rows that are there without a word in the log.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
insert into t values (3, 'c');

-- change
alter table t add column state text default 'new';
update t set v = 'B' where id = 2;
insert into t (id, v, state) values (4, 'd', 'old');

-- after
insert into t (id) values (5);
update t set state = 'done' where id = 1;
