-- Types that shrink: values could have been cut.

-- before
create table number (id int primary key, n bigint);
insert into number values (1, 1);
create table text_ (id int primary key, v varchar(50));
insert into text_ values (1, 'longer than five');
create table moment (id int primary key, at datetime(6));
insert into moment values (1, '2026-01-02 03:04:05.123');
create table binary_ (id int primary key, b binary(4));
insert into binary_ values (1, 0x01);

-- change
alter table number modify n int;
insert into number values (2, 2);
alter table text_ modify v varchar(20);
insert into text_ values (2, 'five5');
alter table moment modify at datetime;
insert into moment values (2, '2026-01-02 03:04:05');
alter table binary_ modify b binary(8);
insert into binary_ values (2, 0x02);

-- after
update number set n = 3 where id = 1;
update text_ set v = 'x' where id = 2;
update moment set at = '2026-01-01' where id = 2;
update binary_ set b = 0x03 where id = 2;
