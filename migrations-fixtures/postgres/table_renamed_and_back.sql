-- A table that was called otherwise: noticed by the rows written meanwhile.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a');
create table quiet (id int primary key, v text);
insert into quiet values (1, 'a');

-- change
alter table t rename to elsewhere;
insert into elsewhere values (2, 'b');
alter table elsewhere rename to t;
insert into t values (3, 'c');
alter table quiet rename to elsewhere;
alter table elsewhere rename to quiet;
insert into quiet values (2, 'b');

-- after
update t set v = 'after' where id = 1;
update quiet set v = 'after' where id = 1;
