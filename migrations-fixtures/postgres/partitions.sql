-- Partitions come empty; rows arrive under the parent's name, in its new shape.

-- before
create table t (id int, at date, v text, primary key (id, at)) partition by range (at);
create table t_2025 partition of t for values from ('2025-01-01') to ('2026-01-01');
insert into t values (1, '2025-05-05', 'a');

-- change
create table t_2026 partition of t for values from ('2026-01-01') to ('2027-01-01');
insert into t values (2, '2026-05-05', 'b');

-- change
alter table t add column n int;
insert into t values (3, '2025-06-06', 'c', 3), (4, '2026-06-06', 'd', 4);
update t set at = '2026-07-07' where id = 1;

-- change
create table t_2027 (v text, at date not null, n int, id int not null);
alter table t attach partition t_2027 for values from ('2027-01-01') to ('2028-01-01');
insert into t values (5, '2027-05-05', 'e', 5);
truncate t;
insert into t values (6, '2025-01-01', 'f', 6);

-- after
update t set v = 'after' where id = 6;
