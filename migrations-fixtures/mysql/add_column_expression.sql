-- A default by an expression.

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'a');

-- change
alter table t add n int default (1 + 1), add w varchar(40) default (concat('x', 'y'));
insert into t (id, v) values (2, 'b');

-- after
update t set n = 9 where id = 1;
