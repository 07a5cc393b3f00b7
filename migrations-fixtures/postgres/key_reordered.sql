-- The same columns in another order name the same rows.

-- before
create table t (a int, b int, v text, primary key (a, b));
insert into t values (1, 2, 'x'), (2, 1, 'y'), (3, 3, 'z');

-- change
alter table t drop constraint t_pkey, add primary key (b, a);
update t set v = 'X' where a = 1;
delete from t where a = 2;
insert into t values (2, 1, 'again'), (1, 1, 'w');

-- change
update t set a = 9 where b = 3;

-- after
update t set b = 8 where a = 9;
