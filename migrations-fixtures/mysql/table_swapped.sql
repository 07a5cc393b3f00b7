-- A copy in the new shape takes the name, as tools for online changes do it.

-- before
create table t (id int primary key, v varchar(10));
insert into t values (1, 'a'), (2, 'b');

-- change
create table _t_gho like t;
alter table _t_gho add w varchar(10) default 'filled';
insert into _t_gho (id, v) select id, v from t;
update t set v = 'A' where id = 1;
replace into _t_gho (id, v) select id, v from t where id = 1;
rename table t to _t_del, _t_gho to t;
insert into t values (3, 'c', 'w');
drop table _t_del;

-- after
update t set v = 'after' where id = 1;
