-- A partition that holds rows is attached, one is detached, one truncated: nothing of it is in the log under the parent's name, but in the catalog.

-- before
create table attached (id int primary key, v text) partition by range (id);
create table attached_1 partition of attached for values from (0) to (10);
insert into attached values (1, 'a');
create table detached (id int primary key, v text) partition by range (id);
create table detached_1 partition of detached for values from (0) to (10);
create table detached_2 partition of detached for values from (10) to (20);
insert into detached values (1, 'a'), (11, 'b');
create table truncated (id int primary key, v text) partition by range (id);
create table truncated_1 partition of truncated for values from (0) to (10);
create table truncated_2 partition of truncated for values from (10) to (20);
insert into truncated values (1, 'a'), (11, 'b');

-- change
create table attached_2 (id int not null, v text);
insert into attached_2 values (11, 'b');
alter table attached attach partition attached_2 for values from (10) to (20);
insert into attached values (12, 'c');
alter table detached detach partition detached_2;
insert into detached values (2, 'c');
truncate truncated_2;
insert into truncated values (12, 'c');

-- after
update attached set v = 'after' where id = 1;
update detached set v = 'after' where id = 1;
update truncated set v = 'after' where id = 1;
