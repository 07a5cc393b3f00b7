-- Long values before and after a change that moves their column.

-- before
create table t (id int primary key, title varchar(20), body longtext, bytes longblob);
insert into t values (1, 't1', repeat('body1 ', 2000), repeat(0x01, 20000)), (2, 't2', repeat('body2 ', 2000), null);

-- change
update t set title = 'untouched body' where id = 1;
alter table t add note varchar(20) after id, modify body longtext first;
update t set note = 'n' where id = 2;

-- change
alter table t change body content longtext;
update t set title = 'again' where id = 1;
update t set content = repeat('new ', 3000) where id = 2;

-- after
update t set note = 'after';
