-- Dates with a zero in them, before and after dates come.

-- before
set sql_mode = '';
create table t (id int primary key, d date not null, at datetime);
insert into t values (1, '0000-00-00', '0000-00-00 00:00:00'), (2, '2026-01-02', '2026-00-00 00:00:00'), (3, '2026-01-02', null);
create table added (id int primary key);
insert into added values (1);

-- change
alter table t add e date, add on_ timestamp null;
insert into t values (4, '2026-01-00', '2026-01-02 00:00:00', '0000-00-00', '0000-00-00 00:00:00');
alter table added add d date not null;
insert into added values (2, '0000-00-00');

-- after
update t set d = '2026-01-03' where id = 1;
update added set d = '2026-01-03' where id = 2;
