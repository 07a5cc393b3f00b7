-- A name in other letters is the same column.

-- before
create table t (id int primary key, name varchar(10));
insert into t values (1, 'a'), (2, 'b');

-- change
alter table t change name Name varchar(10);
update t set name = 'A' where id = 1;
alter table t rename column NAME to NaMe;
insert into t values (3, 'c');

-- change
alter table t modify column `name` varchar(20);
insert into t values (4, 'longer than ten');

-- after
update t set name = 'after' where id = 2;
