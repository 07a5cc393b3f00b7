-- A default that filled the rows and was dropped again before another row came: nothing in log or catalog shows it, where it
-- was another value in every row. One that was the same for all leaves a trace.

-- before
create table volatile (id int primary key, v text);
insert into volatile values (1, 'a'), (2, 'b');
create table constant (id int primary key, v text);
insert into constant values (1, 'a'), (2, 'b');

-- change
create sequence numbers start 100;
alter table volatile add column n bigint default nextval('numbers');
alter table volatile alter n drop default;
insert into volatile values (3, 'c', 3);
alter table constant add column n bigint default 7;
alter table constant alter n drop default;
insert into constant values (3, 'c', 3);

-- after
update volatile set v = 'A' where id = 1;
update constant set v = 'A' where id = 1;
