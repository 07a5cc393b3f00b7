-- Precision grows under one scale; beyond 38 digits, or under another scale, it is another type in the lake.

-- before
create table t (id int primary key, n numeric(8, 2), m numeric(6, 0));
insert into t values (1, 123456.78, 123456), (2, -0.01, null);
create table long (id int primary key, n numeric(38, 2));
insert into long values (1, 1.25);
create table scaled (id int primary key, n numeric(8, 2));
insert into scaled values (1, 1.25);

-- change
alter table t alter n type numeric(20, 2), alter m type numeric(38, 0);
update t set n = 123456789012345678.99, m = 99999999999999999999999999999999999999 where id = 1;
alter table long alter n type numeric(40, 2);
insert into long values (2, 12345678901234567890123456789012345678.25);
alter table scaled alter n type numeric(10, 4);
insert into scaled values (2, 1.0625);

-- after
update t set n = 0.5 where id = 2;
update long set n = 2.5 where id = 1;
update scaled set n = 2.5 where id = 1;
