-- A domain gets a rule, loses it and is put in the place of its base type.

-- before
create domain positive as int;
create table t (id int primary key, n positive);
insert into t values (1, 1), (2, 2);
create table base (id int primary key, n int);
insert into base values (1, 1);

-- change
alter domain positive add constraint above check (value > 0);
insert into t values (3, 3);

-- change
alter domain positive drop constraint above;
alter domain positive set default 9;
insert into t (id) values (4);
insert into t values (5, -5);
alter domain positive rename to whole;
insert into t values (6, 6);
alter table base alter n type whole;
insert into base values (2, 2);

-- after
update t set n = 0 where id = 1;
update base set n = 0 where id = 1;
