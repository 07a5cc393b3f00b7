-- Columns change places; the lake finds them by number.

-- before
create table t (id int primary key, a int, b int, c varchar(10));
insert into t values (1, 1, 10, 'c1'), (2, 2, 20, 'c2');

-- change
alter table t modify b int after id;
insert into t values (3, 30, 3, 'c3');

-- change
alter table t modify c varchar(10) first, modify id int after a;
update t set a = 9 where id = 1;
insert into t values ('c4', 40, 4, 4);

-- after
update t set b = 0 where id = 2;
