-- A key of two columns becomes one of one.

-- before
create table t (a int, b int, v text, primary key (a, b));
insert into t values (1, 1, 'x'), (2, 1, 'y');

-- change
alter table t drop constraint t_pkey, add primary key (a);
insert into t values (3, 1, 'z');
update t set v = 'Y', b = 7 where a = 2;

-- after
delete from t where a = 1;
