-- Another type by an expression.

-- before
create table t (id int primary key, v text, flag int);
insert into t values (1, '10', 0), (2, '20', 1);

-- change
alter table t alter v type int using v::int + 1;
insert into t values (3, 30, 1);

-- change
alter table t alter flag type boolean using flag = 1;
insert into t values (4, 40, true);

-- after
update t set flag = false where id = 2;
