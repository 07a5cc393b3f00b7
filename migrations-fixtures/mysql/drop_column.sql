-- A column goes; what it held stays readable.

-- before
create table t (id int primary key, a varchar(10), gone int, b varchar(10));
insert into t values (1, 'a1', 1, 'b1'), (2, 'a2', 2, 'b2'), (3, 'a3', 3, 'b3'), (4, 'a4', 4, 'b4');

-- change
update t set gone = 100 where id = 1;
alter table t drop gone;
update t set a = 'A' where id = 2;
insert into t values (5, 'a5', 'b5');

-- change
alter table t drop column b;
delete from t where id = 3;
insert into t values (6, 'a6');

-- after
update t set a = 'after' where id in (1, 4);
