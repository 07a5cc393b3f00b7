-- A composite type gets one more part: the text of all rows is another, of which the log has nothing.
-- stream: text

-- before
create type pair as (a int, b text);
create table t (id int primary key, p pair);
insert into t values (1, '(1,x)'), (2, null);

-- change
alter type pair add attribute c int;
insert into t values (3, '(3,z,3)');

-- after
update t set p = '(2,y,2)' where id = 2;
