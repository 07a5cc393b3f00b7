-- Columns of arrays come and grow; what lists cannot go along with stops the table.

-- before
create table t (id int primary key, v text, numbers int[], amounts numeric(6,2)[], old date[]);
insert into t select i, 'v' || i, array[i, null, i * 10], array[i + 0.5], array[date '2026-01-01' + i] from generate_series(1, 5) i;
create table single (id int primary key, v text);
insert into single values (1, 'a'), (2, 'b');

-- change
alter table t add column tags text[];
update t set tags = '{a,NULL,"b c"}' where id = 1;
insert into t values (6, 'v6', '{}', null, '{NULL}', '{}');

-- change
update t set v = 'before' where id = 2;
alter table t alter numbers type bigint[], alter amounts type numeric(10,2)[];
update t set numbers = '{5000000000}', amounts = '{12345678.90}' where id = 3;
update t set v = 'left alone' where id = 4;

-- change
alter table t rename numbers to counts;
alter table t drop column old;
alter table single alter v type text[] using array[v];
insert into single values (3, '{c,d}');
update t set id = 50 where id = 5;

-- after
update t set tags = '{after}' where id = 2;
update single set v = array_append(v, 'z') where id = 1;
