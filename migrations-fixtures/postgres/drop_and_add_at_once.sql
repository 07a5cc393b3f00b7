-- The same in one statement: of a column in the middle its place tells; the last one comes again where it was.

-- before
create table t (id int primary key, status text, v text);
insert into t values (1, 'open', 'v1'), (2, 'open', 'v2');
create table l (id int primary key, v text, status text);
insert into l values (1, 'v1', 'open'), (2, 'v2', 'open');

-- change
alter table t drop column status, add column status int;
insert into t values (3, 'v3', 7);
update t set status = 8 where id = 1;
alter table l drop column status, add column status text;
insert into l values (3, 'v3', 'new');

-- after
update t set v = 'after' where id = 2;
update l set v = 'after' where id = 2;
