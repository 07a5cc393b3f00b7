-- An expression in USING that leaves the type as it was, or widens it, changes rows without a trace in the log.

-- before
create table same (id int primary key, v text);
insert into same values (1, 'a'), (2, 'b');
create table wider (id int primary key, n int);
insert into wider values (1, 1), (2, 2);

-- change
alter table same alter v type text using upper(v);
insert into same values (3, 'c');
alter table wider alter n type bigint using n * 10;
insert into wider values (3, 3);

-- after
update same set v = 'after' where id = 1;
update wider set n = 5 where id = 1;
