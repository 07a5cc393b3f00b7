-- An index is built anew beside the old one and takes its place, as for a bloated key.

-- before
create table t (id int primary key, v text);
insert into t values (1, 'a'), (2, 'b');

-- change
create unique index concurrently t_new on t (id);
alter table t drop constraint t_pkey, add constraint t_pkey primary key using index t_new;
update t set v = 'A' where id = 1;
reindex table concurrently t;
delete from t where id = 2;

-- after
insert into t values (2, 'again');
