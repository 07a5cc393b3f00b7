-- A sign comes or goes: values could have been cut, and the lake's type is another.

-- before
create table gone (id int primary key, n int);
insert into gone values (1, 1);
create table come (id int primary key, n int unsigned);
insert into come values (1, 1);
create table large (id int primary key, n bigint unsigned);
insert into large values (1, 18446744073709551615);
create table grows (id int primary key, n int unsigned);
insert into grows values (1, 4294967295);

-- change
alter table gone modify n int unsigned;
insert into gone values (2, 4294967295);
alter table come modify n int;
insert into come values (2, -1);
alter table large add m bigint unsigned;
insert into large values (2, 0, 18446744073709551615);
alter table grows modify n bigint unsigned;
insert into grows values (2, 18446744073709551615);

-- after
update gone set n = 5 where id = 1;
update come set n = 5 where id = 1;
update large set m = 5 where id = 1;
update grows set n = 5 where id = 1;
