-- The type of a key decides how its deletes are written: it is read again where the lake's type is another.

-- before
create table t (id smallint primary key, v varchar(10));
insert into t values (1, 'a'), (2, 'b');
create table u (id int primary key, v varchar(10));
insert into u values (1, 'a'), (2, 'b');

-- change
alter table t modify id int;
insert into t values (100000, 'c');
delete from t where id = 2;
alter table u modify id bigint;
insert into u values (5000000000, 'c');
delete from u where id = 2;

-- after
update t set v = 'after' where id in (1, 100000);
update u set v = 'after' where id in (1, 5000000000);
