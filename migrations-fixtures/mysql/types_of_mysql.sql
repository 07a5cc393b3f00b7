-- JSON gets its own form, and columns of it come and go.
-- only: mysql

-- before
create table t (id int primary key, j json);
insert into t values (1, '{"b": 1, "a": 2}'), (2, null);
create table parsed (id int primary key, j text);
insert into parsed values (1, '{"b": 1,  "a": 2}');

-- change
alter table t add k json, add p point srid 0;
insert into t values (3, '[1, 2.50, "x"]', '{"a": {"b": null}}', st_geomfromtext('POINT(1 2)'));
update t set j = json_set(j, '$.c', 3) where id = 1;
alter table parsed modify j json;
insert into parsed values (2, '[1]');

-- after
update t set k = '1' where id = 2;
update parsed set j = '[2]' where id = 1;
