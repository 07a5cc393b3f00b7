-- Columns that are computed, stored and virtual; where the log has them they are in the lake.
-- only: mysql, mariadb 10.11

-- before
create table t (id int primary key, a int, s int as (a + 1) stored, v int as (a * 2) virtual);
insert into t (id, a) values (1, 1), (2, 2);
create table added (id int primary key, a int);
insert into added values (1, 1);

-- change
alter table t add w varchar(10);
insert into t (id, a, w) values (3, 3, 'w');
update t set a = 10 where id = 1;
alter table t drop v;
insert into t (id, a) values (4, 4);
alter table added add s int as (a + 1) stored;
insert into added (id, a) values (2, 2);

-- change
alter table added drop s;
alter table added add v int generated always as (a * 3) virtual;
insert into added (id, a) values (3, 3);

-- after
update t set a = 20 where id = 2;
update added set a = 10 where id = 1;
