-- References come and go; rows that they cascade to are in the log of newer servers only.
-- only: mysql

-- before
create table parent (id int primary key, v varchar(10));
create table child (id int primary key, parent int, foreign key (parent) references parent (id) on delete cascade);
insert into parent values (1, 'a'), (2, 'b');
insert into child values (1, 1), (2, 2), (3, null);

-- change
alter table child add note varchar(10), add constraint again foreign key (parent) references parent (id);
alter table child drop foreign key again;
insert into child values (4, 2, 'n');
delete from parent where id = 1;

-- change
alter table parent add n int;
update parent set n = 1 where id = 2;

-- after
update child set note = 'after' where id = 2;
