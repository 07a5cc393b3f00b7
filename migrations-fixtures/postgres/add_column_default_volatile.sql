-- A default that is another value in every row rewrites the table.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
create sequence numbers start 100;
alter table t add column n bigint default nextval('numbers');
insert into t (id, v) values (3, 'c');

-- after
insert into t (id, v) values (4, 'd');
update t set v = 'A' where id = 1;
