-- Types that are text in the lake: domains over text, citext, json to jsonb.
-- stream: text

-- before
create extension if not exists citext;
create domain label as varchar(10);
create table t (id int primary key, l label, c citext, j json);
insert into t values (1, 'one', 'One', '{"b": 1,  "a": 2}');

-- change
alter table t add column l2 label, add column j2 jsonb;
insert into t values (2, 'two', 'TWO', '[1]', 'zwei', '{"b": 1, "a": 2}');

-- change
alter table t alter j type jsonb;
insert into t values (3, 'three', 'x', '{}', null, null);

-- after
update t set c = 'after' where id = 1;
