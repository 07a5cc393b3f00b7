-- An identity numbers the rows that are there.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
alter table t add column n bigint generated always as identity;
insert into t (id, v) values (3, 'c');

-- after
insert into t (id, v) values (4, 'd');
delete from t where id = 1;
