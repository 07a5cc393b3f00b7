-- What does not touch rows: defaults, comments, indexes, options, statistics, the order of rows.

-- before
create table t (id int primary key, v varchar(20), n int default 1);
insert into t values (1, 'a', 1), (2, 'b', 2);

-- change
alter table t alter v set default 'new', comment = 'it''s a table';
insert into t (id) values (3);
alter table t modify n int default 5 comment 'a number, in words';
insert into t (id) values (4);

-- change
alter table t add index (v), add unique key u (n, id), add constraint positive check (n > 0);
insert into t values (5, 'e', 5);
alter table t drop index u, rename index v to by_v, auto_increment = 100, row_format = dynamic;
insert into t values (6, 'f', 6);
create index by_n on t (n desc);
drop index by_n on t;
alter table t drop constraint positive;
alter table t add fulltext index (v);
insert into t values (7, 'g', -7);

-- change
alter table t engine = InnoDB, force;
optimize table t;
analyze table t;
alter table t order by v;
insert into t values (8, 'h', 8);

-- after
update t set n = default, v = default where id = 1;
