-- A generated column becomes one like any other, with the values that it had.

-- before
create table middle (id int primary key, a int, g int generated always as (a * 2) stored, v text);
insert into middle (id, a, v) values (1, 1, 'x'), (2, 2, 'y');
create table last (id int primary key, a int, g int generated always as (a * 2) stored);
insert into last (id, a) values (1, 1), (2, 2);

-- change
alter table middle alter g drop expression;
insert into middle values (3, 3, 30, 'z');
alter table last alter g drop expression;
insert into last values (3, 3, 30);

-- after
update middle set g = 0 where id = 1;
update last set g = 0 where id = 1;
