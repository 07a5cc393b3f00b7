-- A child table inherits its parent's changes; each is a table of its own in the lake.

-- before
create table parent (id int primary key, v text);
create table child (extra int, primary key (id)) inherits (parent);
insert into parent values (1, 'p');
insert into child values (2, 'c', 2);

-- change
alter table parent add column note text;
insert into parent values (3, 'p3', 'n');
insert into child values (4, 'c4', 4, 'n');

-- change
alter table child no inherit parent;
update child set note = 'alone' where id = 2;

-- after
update only parent set v = 'after';
update child set v = 'after';
