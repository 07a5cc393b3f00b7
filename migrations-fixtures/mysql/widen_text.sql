-- Text and bytes grow, beyond the length that takes one byte more, and into TEXT and BLOB.

-- before
create table t (id int primary key, v varchar(10), w varchar(100), c char(3), b varbinary(4), x tinytext, y blob) character set utf8mb4;
insert into t values (1, 'ten', 'w', 'abc', 0x0102, 'tiny', 0xff), (2, null, '', '', null, null, null);

-- change
alter table t modify v varchar(300), modify c char(10), modify b varbinary(400);
update t set v = repeat('é', 300), c = 'ten chars.', b = repeat(0xab, 400) where id = 1;

-- change
alter table t modify w text, modify x mediumtext, modify y longblob, modify b blob, modify c varchar(20);
insert into t values (3, 'v', repeat('w', 1000), 'c', repeat(0x01, 1000), repeat('x', 70000), repeat(0x02, 70000));

-- after
update t set v = 'after' where id = 2;
