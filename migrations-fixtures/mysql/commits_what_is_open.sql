-- A change of the table ends the transaction that it comes in; rows before and after are of two.

-- before
create table t (id int primary key, v varchar(20), n int);
insert into t values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);

-- change
start transaction;
update t set v = 'before' where id = 1;
delete from t where id = 2;
update t set id = 30 where id = 3;
alter table t add w varchar(10);
update t set w = 'after' where id in (1, 30);
insert into t values (2, 'again', 2, 'w');
update t set id = 3 where id = 30;
rollback;

-- change
start transaction;
insert into t values (4, 'd', 4, 'w');
rollback;
set autocommit = 0;
insert into t values (5, 'e', 5, 'w');
alter table t drop n;
insert into t values (6, 'f', 'w');
commit;
set autocommit = 1;

-- after
update t set v = 'end' where id = 1;
