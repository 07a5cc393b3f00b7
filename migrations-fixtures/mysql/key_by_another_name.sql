-- The column of the key is renamed, moved, and the key made anew upon it.

-- before
create table t (id int primary key, v varchar(10));
insert into t values (1, 'a'), (2, 'b'), (3, 'c');

-- change
alter table t change id code int;
update t set v = 'A' where code = 1;

-- change
alter table t drop primary key, add primary key (code);
delete from t where code = 2;
alter table t modify code int after v;
insert into t values ('d', 4);

-- after
update t set code = 30 where code = 3;
