-- Three hundred columns, and one more.

-- before
set session group_concat_max_len = 1000000;
set @columns = (select group_concat('c', n, ' int' order by n separator ', ') from (select a.d + 10 * b.d + 100 * c.d + 1 as n from (select 0 d union select 1 union select 2 union select 3 union select 4 union select 5 union select 6 union select 7 union select 8 union select 9) a, (select 0 d union select 1 union select 2 union select 3 union select 4 union select 5 union select 6 union select 7 union select 8 union select 9) b, (select 0 d union select 1 union select 2) c) numbers);
set @statement = concat('create table t (id int primary key, ', @columns, ')');
prepare make from @statement;
execute make;
insert into t (id, c1, c150, c300) values (1, 1, 150, 300), (2, 2, null, -300);

-- change
alter table t add c301 varchar(10);
update t set c301 = 'wide' where id = 1;
alter table t drop c150;
insert into t (id, c149, c151, c301) values (3, 149, 151, 'w');

-- after
update t set c300 = 0 where id = 2;
