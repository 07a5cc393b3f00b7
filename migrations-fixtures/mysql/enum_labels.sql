-- Labels come at the end; in the middle, or renamed, they change what numbers mean.

-- before
create table t (id int primary key, e enum('a', 'b'), s set('x', 'y'));
insert into t values (1, 'a', 'x'), (2, 'b', 'x,y'), (3, null, '');
create table middle (id int primary key, e enum('a', 'c'));
insert into middle values (1, 'a'), (2, 'c');
create table renamed (id int primary key, e enum('a', 'b'));
insert into renamed values (1, 'a');
create table fewer (id int primary key, e enum('a', 'b', 'c'));
insert into fewer values (1, 'a');

-- change
alter table t modify e enum('a', 'b', 'it''s', 'ü, d'), modify s set('x', 'y', 'z z');
insert into t values (4, 'it''s', 'x,z z'), (5, 'ü, d', 'z z');
alter table middle modify e enum('a', 'b', 'c');
insert into middle values (3, 'b');
alter table renamed modify e enum('a', 'B2');
insert into renamed values (2, 'B2');
alter table fewer modify e enum('a', 'b');
insert into fewer values (2, 'b');

-- after
update t set e = 'b' where id = 1;
update middle set e = 'c' where id = 1;
update renamed set e = 'B2' where id = 1;
update fewer set e = 'b' where id = 1;
