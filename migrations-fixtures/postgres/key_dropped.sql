-- Without a key the source itself refuses updates of a published table; inserts stop ours.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a');

-- change
alter table t drop constraint t_pkey;
insert into t values (2, 'b');
-- fails
update t set v = 'c' where id = 1;

-- change
alter table t add primary key (id);
update t set v = 'c' where id = 1;

-- after
delete from t where id = 2;
insert into t values (3, 'd');
