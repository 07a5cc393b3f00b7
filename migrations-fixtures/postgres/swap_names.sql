-- Two columns of one type change names: by names and types alone it would look like nothing.

-- before
create table t (id int primary key, a text, b text);
insert into t values (1, 'a1', 'b1'), (2, 'a2', 'b2');

-- change
begin;
update t set a = 'A1' where id = 1;
alter table t rename column a to c;
alter table t rename column b to a;
alter table t rename column c to b;
update t set a = 'was b' where id = 2;
commit;
insert into t values (3, 'b of 3', 'a of 3');

-- after
update t set a = 'after' where id = 1;
