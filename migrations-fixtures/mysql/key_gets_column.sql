-- A key of one column becomes one of two.

-- before
create table t (a int primary key, b int not null, v varchar(10));
insert into t values (1, 1, 'x'), (2, 1, 'y');

-- change
alter table t drop primary key, add primary key (a, b);
insert into t values (1, 2, 'z');
update t set v = 'Y' where a = 2;

-- after
delete from t where a = 1 and b = 1;
insert into t values (2, 5, 'w');
