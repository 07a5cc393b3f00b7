-- Another column under the name of one that went: the old values are not its.

-- before
create table t (id int primary key, status text, v text);
insert into t select i, 'open', 'v' || i from generate_series(1, 4) i;

-- change
alter table t drop column status;
insert into t values (5, 'v5');

-- change
alter table t add column status int;
update t set status = 1 where id = 1;
insert into t values (6, 'v6', 2);

-- after
update t set status = 3 where id = 2;
delete from t where id = 3;
