-- NOT NULL comes and goes, with and without NULLs that show it.

-- before
create table t (id int primary key, a int not null, b text);
insert into t values (1, 1, 'b1'), (2, 2, 'b2'), (3, 3, 'b3');

-- change
alter table t alter a drop not null;
update t set a = null where id = 1;

-- change
alter table t alter b set not null;
insert into t values (4, null, 'b4');

-- change
alter table t alter b drop not null;
insert into t values (5, 5, null);

-- after
update t set b = null where id = 2;
