-- Quotes, spaces, other scripts and reserved words.

-- before
create table `Odd "Table" ``x``` (id int primary key, `select` varchar(10), `Ümläut` int) character set utf8mb4;
insert into `Odd "Table" ``x``` values (1, 's', 1), (2, 't', 2);
create table `with.dot` (id int primary key, `a.b` varchar(10)) character set utf8mb4;
insert into `with.dot` values (1, 'x');

-- change
alter table `Odd "Table" ``x``` add column `two words` varchar(10), rename column `select` to `SELECT`;
insert into `Odd "Table" ``x``` values (3, 'u', 3, 'w');
update `Odd "Table" ``x``` set `two words` = 'q"q' where id = 1;
alter table `with.dot` change `a.b` `日本語` varchar(10), add column `it's | #` varchar(20) comment 'x; y', add `alter table` int;
insert into `with.dot` values (2, '値', '# a | b', 1);

-- after
update `Odd "Table" ``x``` set `Ümläut` = 20 where id = 2;
update `with.dot` set `日本語` = '' where id = 1;
