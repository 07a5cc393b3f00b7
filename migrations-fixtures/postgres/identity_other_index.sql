-- Another unique index takes over.

-- before
create table t (id int primary key, code text not null unique, v text);
insert into t values (1, 'a', 'x'), (2, 'b', 'y');

-- change
alter table t replica identity using index t_code_key;
insert into t values (3, 'c', 'z');
update t set v = 'Y' where id = 2;

-- after
update t set code = 'A' where id = 1;
delete from t where id = 3;
