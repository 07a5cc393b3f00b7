-- All of it in one statement.

-- before
create table t (id int primary key, a varchar(5), b int not null, gone text, d decimal(5,1), e enum('x'));
insert into t values (1, 'a', 1, 'g', 1.5, 'x'), (2, 'b', 2, 'g', 2.5, null);

-- change
alter table t add x date after id, add (y json, z binary(4)), drop gone, modify a varchar(50), change b bb bigint null first, modify d decimal(15,1), modify e enum('x', 'y') after d, add index (a), comment 'all at once';
insert into t (id, a, bb, d, x, y, z, e) values (3, 'longer than five', null, 12345678901234.5, '2026-01-02', '[1]', 0x01, 'y');
update t set bb = 5000000000, x = '1000-01-01' where id = 1;

-- after
update t set y = '{"a": null}', z = 0x01020304 where id = 2;
