-- A key of two columns becomes one of one, its column goes with it, or it goes altogether.

-- before
create table t (a int, b int, v varchar(10), primary key (a, b));
insert into t values (1, 1, 'x'), (2, 1, 'y');
create table whole (a int primary key, v varchar(10));
insert into whole values (1, 'x');

-- change
alter table t drop primary key, add primary key (a);
insert into t values (3, 1, 'z');
update t set v = 'Y', b = 7 where a = 2;
alter table whole drop primary key;
insert into whole values (1, 'y');
update whole set a = 2 where v = 'y';

-- change
alter table whole add primary key (a);

-- after
delete from t where a = 1;
update whole set v = 'after' where a = 2;
