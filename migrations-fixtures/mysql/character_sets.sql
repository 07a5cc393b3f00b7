-- Text gets another character set: the same characters in utf8mb4, others could be cut.

-- before
create table t (id int primary key, v varchar(20), n int, w text) character set latin1;
insert into t values (1, 'grün', 1, 'äöü'), (2, null, 2, '');
create table one (id int primary key, v varchar(20) character set latin1, w varchar(20) character set ascii);
insert into one values (1, 'é', 'e');
create table back (id int primary key, v varchar(20)) character set utf8mb4;
insert into back values (1, 'é');

-- change
alter table t convert to character set utf8mb4;
insert into t values (3, '😀', 3, 'ÿ😀');
alter table one modify v varchar(20) character set utf8mb4, modify w varchar(20) character set utf8mb4;
insert into one values (2, '日本', '😀');
alter table back convert to character set latin1;
insert into back values (2, 'ü');

-- change
alter table t default character set latin1;
alter table t add x varchar(10);
insert into t values (4, '😀', 4, 'w', 'größe');

-- after
update t set v = 'after' where id = 2;
update one set v = 'after' where id = 1;
update back set v = 'after' where id = 1;
