-- Comments, statistics, storage, options and indexes: rows stay as they are.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
comment on table t is 'it''s a table';
comment on column t.v is 'a column';
alter table t alter v set statistics 500;
alter table t alter v set storage external;
insert into t values (3, repeat('external ', 800));

-- change
alter table t set (fillfactor = 70, autovacuum_enabled = false);
create index t_v on t using hash (v);
alter table t add constraint short check (length(v) < 100000) not valid;
alter table t validate constraint short;
alter index t_v rename to t_v2;
insert into t values (4, 'd');
vacuum full t;
update t set v = 'vacuumed' where id = 1;
cluster t using t_pkey;
insert into t values (5, 'clustered');

-- after
drop index t_v2;
update t set v = 'after' where id = 2;
