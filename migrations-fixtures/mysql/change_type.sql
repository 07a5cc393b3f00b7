-- Another type: every value is converted by rules of the server's own.

-- before
create table t (id int primary key, v varchar(20), d datetime);
insert into t values (1, '10', '2026-01-02 03:04:05'), (2, '20', null);

-- change
alter table t modify v int;
insert into t values (3, 30, null);

-- change
alter table t modify d timestamp null;
insert into t values (4, 40, '2026-01-02 03:04:05');

-- after
update t set v = 11 where id = 1;
