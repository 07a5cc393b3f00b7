-- Integers and floats grow; what is written is beyond the old type.

-- before
create table t (id int primary key, a tinyint, b smallint not null, c mediumint, d int, e int unsigned, f float);
insert into t values (1, 1, 1, 1, 1, 1, 1.5), (2, -128, -32768, -8388608, -2147483648, 4294967295, null);

-- change
alter table t modify a smallint, modify b mediumint not null, modify c int, modify d bigint, modify f double;
update t set a = 300, b = 40000, c = 9000000, d = 5000000000, f = 1.5e300 where id = 1;

-- change
alter table t modify a bigint, modify b bigint;
insert into t values (3, 9223372036854775807, -9223372036854775808, 3, 3, 3, 0.1);

-- after
update t set f = -0.5 where id = 2;
