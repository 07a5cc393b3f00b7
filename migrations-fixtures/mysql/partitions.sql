-- Partitions are added and reorganised: rows only move. Their first partitioning, and its end, are the same.

-- before
create table t (id int, at date, v varchar(10), primary key (id, at)) partition by range (year(at)) (partition p2025 values less than (2026), partition rest values less than maxvalue);
insert into t values (1, '2025-05-05', 'a'), (2, '2026-05-05', 'b');

-- change
alter table t reorganize partition rest into (partition p2026 values less than (2027), partition rest values less than maxvalue);
insert into t values (3, '2026-06-06', 'c');
alter table t add n int;
update t set at = '2027-07-07', n = 1 where id = 1;

-- change
alter table t remove partitioning;
insert into t values (4, '2025-01-01', 'd', 4);
alter table t partition by hash (id) partitions 4;
insert into t values (5, '2025-01-01', 'e', 5);
alter table t coalesce partition 2;
alter table t add partition partitions 1;
alter table t rebuild partition p0;
insert into t values (6, '2025-01-01', 'f', 6);

-- after
update t set v = 'after' where id = 6;
