-- Columns are renamed, the key among them.

-- before
create table t (id int primary key, a text, b text);
insert into t select i, 'a' || i, 'b' || i from generate_series(1, 5) i;

-- change
update t set a = 'before' where id = 1;
alter table t rename column a to title;
update t set title = 'renamed' where id = 2;
insert into t values (6, 't6', 'b6');

-- change
alter table t rename column id to key;
update t set key = 30 where key = 3;
delete from t where key = 4;

-- after
update t set title = 'after' where key = 5;
