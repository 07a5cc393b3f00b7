-- Long values out of line, under full identity: rows before and after the change keep them, touched or not.

-- before
create table t (id int primary key, title text, body text);
alter table t alter body set storage external;
alter table t replica identity full;
insert into t select i, 't' || i, repeat('body' || i || ' ', 1000) from generate_series(1, 4) i;

-- change
update t set title = 'untouched body' where id = 1;
alter table t add column note text;
update t set title = 'untouched after' where id = 2;
update t set note = 'n' where id = 1;

-- change
alter table t rename column body to content;
update t set note = 'renamed' where id = 3;
update t set content = repeat('new ', 2000) where id = 4;

-- after
update t set title = 'after';
