-- A column goes; what it held stays readable. It cannot be the same afterwards: reload leaves it out.

-- before
create table t (id int primary key, a text, gone int, b text);
insert into t select i, 'a' || i, i, 'b' || i from generate_series(1, 5) i;

-- change
update t set gone = 100 where id = 1;
alter table t drop column gone;
update t set a = 'A' where id = 2;
insert into t values (6, 'a6', 'b6');

-- change
alter table t drop column b;
delete from t where id = 3;
insert into t values (7, 'a7');

-- after
update t set a = 'after' where id in (1, 4);
