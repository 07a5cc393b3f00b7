-- Rows that are there are called otherwise all at once, of which the log has nothing.
-- stream: text

-- before
create type mood as enum ('sad', 'ok');
create table t (id int primary key, m mood);
insert into t values (1, 'sad'), (2, 'ok');

-- change
alter type mood rename value 'sad' to 'low';
insert into t values (3, 'low');

-- after
update t set m = 'low' where id = 2;
