-- A key that the server makes of its own, and one that takes its place.
-- only: mysql

-- before
set sql_generate_invisible_primary_key = on;
create table t (a int, v varchar(10));
insert into t values (1, 'a'), (2, 'b');

-- change
alter table t add w int;
update t set w = 1 where a = 1;
delete from t where a = 2;
insert into t values (3, 'c', 3);

-- change
alter table t drop primary key, drop my_row_id, modify a int not null, add primary key (a);
insert into t values (4, 'd', 4);

-- after
update t set v = 'after' where a = 1;
