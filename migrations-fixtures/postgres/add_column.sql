-- Optional columns come, one after the other, under rows of every state.

-- before
create table t (id int primary key, v text);
insert into t select i, 'v' || i from generate_series(1, 6) i;

-- change
update t set v = 'before' where id = 1;
delete from t where id = 2;
alter table t add column note text;
update t set note = 'new' where id = 3;
update t set id = 40 where id = 4;
insert into t values (7, 'v7', 'seven');

-- change
alter table t add at timestamptz, add price numeric(8, 2), add ok boolean;
update t set at = '2026-01-02 03:04:05+00', price = 1.5, ok = true where id in (3, 40);
delete from t where id = 5;

-- after
update t set note = 'after' where id = 1;
insert into t (id) values (8);
