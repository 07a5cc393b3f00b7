-- NOT NULL without a default gives rows that are there the zero of the type.

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'a');
create table bare (id int primary key, v varchar(20));

-- change
alter table t add n int not null;
insert into t values (2, 'b', 2);
alter table bare add column n int not null default 0;
insert into bare values (1, 'a', 1);

-- after
update t set n = 3 where id = 1;
update bare set n = 3 where id = 1;
