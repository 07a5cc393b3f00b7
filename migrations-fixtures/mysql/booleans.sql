-- TINYINT(1) and its kin are small integers, and stay so under other names.

-- before
create table t (id int primary key, a tinyint(1), b bool not null);
insert into t values (1, 1, true), (2, 0, false), (3, 127, 2);

-- change
alter table t modify a tinyint, add c tinyint(1), add d bit(1);
insert into t values (4, -128, true, 1, b'1');

-- change
alter table t modify b tinyint(4) not null;
update t set b = 100, c = 5, d = b'0' where id = 1;

-- after
update t set a = null where id = 2;
