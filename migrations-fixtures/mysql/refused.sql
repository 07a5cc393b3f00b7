-- A statement that the server refused is in no log; the next one counts.

-- before
create table t (id int primary key, v varchar(20), n int);
insert into t values (1, 'a', 1), (2, 'a', null);

-- change
-- fails
alter table t add unique (v), add w int;
insert into t values (3, 'c', 3);
-- fails
alter table t modify n int not null;
-- fails
alter table t add n int;
-- fails
alter table t drop nothing;
insert into t values (4, 'd', null);

-- change
alter table t add w int;
insert into t values (5, 'e', 5, 5);

-- after
update t set w = 1 where id = 1;
