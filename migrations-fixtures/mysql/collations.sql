-- The order of text is no matter of rows; in a key it decides what is equal.

-- before
create table t (id int primary key, v varchar(20)) character set utf8mb4 collate utf8mb4_general_ci;
insert into t values (1, 'a'), (2, 'B');
create table k (id varchar(20) primary key, v int) character set utf8mb4 collate utf8mb4_general_ci;
insert into k values ('a', 1), ('B', 2);

-- change
alter table t modify v varchar(20) collate utf8mb4_bin;
insert into t values (3, 'b');
alter table t collate utf8mb4_unicode_ci;
alter table t add w varchar(10);
insert into t values (4, 'C', 'w');
alter table k modify id varchar(20) collate utf8mb4_bin;
insert into k values ('A', 3);
update k set v = 20 where id = 'B';
delete from k where id = 'a';

-- after
update t set v = 'after' where id = 1;
update k set v = 30 where id = 'A';
