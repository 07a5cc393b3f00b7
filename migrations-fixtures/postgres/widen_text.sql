-- Text grows until it has no bound.

-- before
create table t (id int primary key, v varchar(5), w varchar(10), c varchar);
insert into t values (1, 'five5', 'ten', 'c'), (2, null, '', 'c');

-- change
alter table t alter v type varchar(20);
update t set v = 'up to twenty letters' where id = 1;
insert into t values (3, 'more than five', 'w', 'c');

-- change
alter table t alter v type text, alter w type varchar, alter c type text;
update t set v = repeat('v', 100), w = repeat('w', 100) where id = 1;

-- after
update t set c = 'after' where id = 2;
