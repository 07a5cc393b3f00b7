-- The same columns in another order.

-- before
create table t (a int, b int, v varchar(10), primary key (a, b));
insert into t values (1, 2, 'x'), (2, 1, 'y'), (3, 3, 'z');

-- change
alter table t drop primary key, add primary key (b, a);
update t set v = 'X' where a = 1;
delete from t where a = 2;
insert into t values (2, 1, 'again'), (1, 1, 'w');

-- after
update t set b = 8 where a = 3;
