-- Integers and floats grow, in the key too; what is written is beyond the old type.

-- before
create table t (id int primary key, s smallint, i int not null, r real);
insert into t values (1, 1, 1, 1.5), (2, 2, 2, 2.5), (3, null, 3, null);

-- change
alter table t alter s type int;
update t set s = 100000 where id = 1;

-- change
alter table t alter i type bigint, alter r type double precision;
update t set i = 5000000000, r = 1.5e300 where id = 1;
insert into t values (4, 4, 6000000000, 0.1);

-- change
alter table t alter s type bigint;
update t set s = 7000000000 where id = 2;

-- after
update t set i = -9223372036854775808 where id = 3;
