-- Another column under the name of one that went: the old values are not its.

-- before
create table t (id int primary key, status varchar(10), v varchar(10));
insert into t values (1, 'open', 'v1'), (2, 'open', 'v2'), (3, 'open', 'v3');

-- change
alter table t drop status;
insert into t values (4, 'v4');

-- change
alter table t add status int after id;
update t set status = 1 where id = 1;
insert into t values (5, 2, 'v5');

-- change
alter table t drop status, add status date;
insert into t values (6, 'v6', '2026-01-02');

-- after
update t set status = '2026-01-03' where id = 2;
delete from t where id = 3;
