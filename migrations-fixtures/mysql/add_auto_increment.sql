-- A number for every row that is there.

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'a'), (2, 'b');

-- change
alter table t add n bigint auto_increment unique;
insert into t (id, v) values (3, 'c');

-- after
insert into t (id, v) values (4, 'd');
delete from t where id = 1;
