-- A table that was called otherwise for a moment.

-- before
create table t (id int primary key, v varchar(10));
insert into t values (1, 'a');

-- change
rename table t to elsewhere;
insert into elsewhere values (2, 'b');
rename table elsewhere to t;
insert into t values (3, 'c');

-- after
update t set v = 'after' where id = 1;
