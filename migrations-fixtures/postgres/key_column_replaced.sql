-- The column of the key goes, another becomes the key.

-- before
create table t (id int primary key, code text not null, v text);
insert into t values (1, 'a', 'x'), (2, 'b', 'y');

-- change
alter table t drop column id, add primary key (code);
insert into t values ('c', 'z');
update t set v = 'Y' where code = 'b';

-- after
delete from t where code = 'a';
