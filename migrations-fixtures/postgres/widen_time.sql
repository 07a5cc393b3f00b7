-- Fractions of a second grow.

-- before
create table t (id int primary key, at timestamp(0), on_ timestamptz(3), clock time(0));
insert into t values (1, '2026-01-02 03:04:05', '2026-01-02 03:04:05.123+00', '01:02:03');

-- change
alter table t alter at type timestamp(3), alter on_ type timestamptz, alter clock type time(6);
insert into t values (2, '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.123456+00', '01:02:03.000001');

-- after
update t set at = '2026-01-02 03:04:05.001' where id = 1;
