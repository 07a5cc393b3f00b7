-- Columns of types that only MariaDB has.
-- only: mariadb

-- before
create table t (id int primary key, u uuid);
insert into t values (1, '123e4567-e89b-12d3-a456-426614174000');
create table parsed (id int primary key, j text);
insert into parsed values (1, '{"b": 1,  "a": 2}');

-- change
alter table t add a inet6, add b inet4, add j json, add v uuid, add c varchar(1000) compressed;
insert into t values (2, null, '2001:db8::1', '10.0.0.1', '{"b": 1,  "a": 2}', '00000000-0000-0000-0000-000000000000', repeat('c', 500));
alter table parsed modify j json;
insert into parsed values (2, '[1]');

-- after
update t set a = '::1' where id = 1;
update parsed set j = '[2]' where id = 1;
