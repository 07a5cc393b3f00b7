-- Two columns change names in one statement, and others by a third name.

-- before
create table t (id int primary key, a varchar(10), b varchar(10), c int, d int);
insert into t values (1, 'a1', 'b1', 1, 10), (2, 'a2', 'b2', 2, 20);

-- change
update t set a = 'A1' where id = 1;
alter table t rename column a to b, rename column b to a;
update t set a = 'was b' where id = 2;
insert into t (id, a, b) values (3, 'a3', 'b3');

-- change
alter table t change c d int, change d c bigint;
update t set c = 5000000000 where id = 1;

-- change
alter table t rename column c to x;
alter table t rename column d to c;
alter table t rename column x to d;
insert into t (id, c, d) values (4, 4, 40);

-- after
update t set a = 'after', c = 9 where id = 2;
