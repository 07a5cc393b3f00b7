-- By CHANGE and by RENAME COLUMN, the key among them, twice and back.

-- before
create table t (id int primary key, a varchar(10), b varchar(10));
insert into t values (1, 'a1', 'b1'), (2, 'a2', 'b2'), (3, 'a3', 'b3'), (4, 'a4', 'b4');

-- change
update t set a = 'before' where id = 1;
alter table t change a title varchar(10);
update t set title = 'renamed' where id = 2;

-- change
alter table t rename column id to `key`;
update t set `key` = 30 where `key` = 3;
delete from t where `key` = 4;

-- change
alter table t rename column b to c;
insert into t values (5, 't5', 'c5');
alter table t rename column c to b;
insert into t values (6, 't6', 'b6');

-- after
update t set title = 'after' where `key` = 5;
