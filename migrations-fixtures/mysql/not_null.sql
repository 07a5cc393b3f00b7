-- NOT NULL comes and goes, with and without NULLs that show it.

-- before
create table t (id int primary key, a int not null, b varchar(10));
insert into t values (1, 1, 'b1'), (2, 2, 'b2');

-- change
alter table t modify a int;
update t set a = null where id = 1;

-- change
alter table t modify b varchar(10) not null;
insert into t values (3, null, 'b3');

-- change
alter table t modify b varchar(10) null;
insert into t values (4, 4, null);

-- after
update t set b = null where id = 2;
