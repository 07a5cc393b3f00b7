-- Digits before the point grow; another scale, or more than 38 digits, is another type in the lake.

-- before
create table t (id int primary key, n decimal(8,2), m decimal(6,0));
insert into t values (1, 123456.78, 123456), (2, -0.01, null);
create table `long` (id int primary key, n decimal(38,2));
insert into `long` values (1, 1.25);
create table scaled (id int primary key, n decimal(8,2));
insert into scaled values (1, 1.25);

-- change
alter table t modify n decimal(20,2), modify m numeric(38);
update t set n = 123456789012345678.99, m = 99999999999999999999999999999999999999 where id = 1;
alter table `long` modify n decimal(40,2);
insert into `long` values (2, 12345678901234567890123456789012345678.25);
alter table scaled modify n decimal(10,4);
insert into scaled values (2, 1.0625);

-- after
update t set n = 0.5 where id = 2;
update `long` set n = 2.5 where id = 1;
update scaled set n = 2.5 where id = 1;
