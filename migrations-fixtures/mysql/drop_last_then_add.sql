-- The last column goes and another comes, without a row between: the old values are not its.

-- before
create table t (id int primary key, v varchar(10), last int);
insert into t values (1, 'v1', 1), (2, 'v2', 2);
create table same (id int primary key, v varchar(10), last int);
insert into same values (1, 'v1', 1), (2, 'v2', 2);

-- change
alter table t drop last;
alter table t add other int;
alter table same drop last;
alter table same add last int;
insert into t values (3, 'v3', 30);
insert into same values (3, 'v3', 30);

-- change
alter table t drop other;
alter table t add fresh varchar(10);
update t set fresh = 'f' where id = 1;

-- after
update t set v = 'after' where id = 2;
update same set v = 'after' where id = 2;
