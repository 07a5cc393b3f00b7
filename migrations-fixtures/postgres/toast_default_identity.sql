-- A long value that an update did not touch is not in the log: it stays what it was, whatever was altered before and after.

-- before
create table t (id int primary key, title text, body text);
alter table t alter body set storage external;
insert into t select i, 't' || i, repeat('body' || i || ' ', 1000) from generate_series(1, 5) i;

-- change
alter table t add column note text;
update t set note = 'n', body = repeat('whole ', 1000) where id = 1;

-- change
update t set note = 'body left out' where id = 2;

-- change
alter table t rename column body to content;
update t set title = 'renamed' where id in (1, 3);

-- change
begin;
update t set title = 'before' where id in (2, 4);
alter table t add column extra text;
alter table t alter extra set storage external;
update t set extra = repeat('extra ', 1000) where id in (4, 5);
update t set id = id + 10 where id in (4, 5);
update t set title = 'moved' where id > 10;
commit;

-- change
alter table t replica identity full;
update t set title = 'more' where id = 3;

-- after
update t set title = 'after' where id in (1, 2);
