-- Fractions of a second grow.

-- before
create table t (id int primary key, at datetime, on_ timestamp(3) null, clock time);
insert into t values (1, '2026-01-02 03:04:05', '2026-01-02 03:04:05.123', '01:02:03');

-- change
alter table t modify at datetime(3), modify on_ timestamp(6) null, modify clock time(6);
insert into t values (2, '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.123456', '01:02:03.000001');

-- after
update t set at = '2026-01-02 03:04:05.001' where id = 1;
