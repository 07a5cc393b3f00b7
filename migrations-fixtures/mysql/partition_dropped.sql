-- A partition is dropped, emptied or exchanged: its rows go without row events.

-- before
create table dropped (id int primary key, v varchar(10)) partition by range (id) (partition p1 values less than (10), partition p2 values less than (20));
insert into dropped values (1, 'a'), (11, 'b');
create table emptied (id int primary key, v varchar(10)) partition by range (id) (partition p1 values less than (10), partition p2 values less than (20));
insert into emptied values (1, 'a'), (11, 'b');
create table exchanged (id int primary key, v varchar(10)) partition by range (id) (partition p1 values less than (10), partition p2 values less than (20));
insert into exchanged values (1, 'a'), (11, 'b');
create table other (id int primary key, v varchar(10));
insert into other values (12, 'c');

-- change
alter table dropped drop partition p2;
insert into dropped values (2, 'c');
alter table emptied truncate partition p2;
insert into emptied values (2, 'c');
alter table exchanged exchange partition p2 with table other;
insert into exchanged values (2, 'c');

-- after
update dropped set v = 'after' where id = 1;
update emptied set v = 'after' where id = 1;
update exchanged set v = 'after' where id = 1;
insert into other values (13, 'd');
