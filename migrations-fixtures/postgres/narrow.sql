-- Types that shrink: values could have been cut.

-- before
create table number (id int primary key, n bigint);
insert into number values (1, 1);
create table text_ (id int primary key, v text);
insert into text_ values (1, 'longer than five');
create table moment (id int primary key, at timestamp);
insert into moment values (1, '2026-01-02 03:04:05.678');

-- change
alter table number alter n type int;
insert into number values (2, 2);
alter table text_ alter v type varchar(5) using left(v, 5);
insert into text_ values (2, 'five5');
alter table moment alter at type timestamp(0);
insert into moment values (2, '2026-01-02 03:04:05');

-- after
update number set n = 3 where id = 1;
update text_ set v = 'x' where id = 2;
update moment set at = at where id = 1;
