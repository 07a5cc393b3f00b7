-- A key that counts from now on: rows with 0 in it would have got a number.

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'a'), (2, 'b');
create table s (id int auto_increment primary key, v varchar(20));
insert into s (v) values ('a'), ('b');

-- change
alter table t modify id int auto_increment;
insert into t (v) values ('c');
alter table s modify id int;
insert into s values (7, 'c');

-- after
update t set v = 'A' where id = 1;
delete from s where id = 1;
