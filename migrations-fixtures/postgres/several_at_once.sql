-- All of it in one statement.

-- before
create table t (id int primary key, a varchar(5), b int not null, gone text, d numeric(5, 1));
insert into t values (1, 'a', 1, 'g', 1.5), (2, 'b', 2, 'g', 2.5);

-- change
alter table t add x date, add y uuid, drop gone, alter a type text, alter b type bigint, alter b drop not null, alter d type numeric(15, 1);
insert into t values (3, 'longer than five', null, 12345678901234.5, '2026-01-02', '11111111-2222-3333-4444-555555555555');
update t set b = 5000000000, x = '0001-01-01' where id = 1;

-- after
update t set y = '00000000-0000-0000-0000-000000000000' where id = 2;
