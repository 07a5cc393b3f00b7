-- Labels come at the end and in the middle; rows with them follow.
-- stream: text

-- before
create type mood as enum ('sad', 'ok');
create table t (id int primary key, m mood);
insert into t values (1, 'sad'), (2, 'ok');

-- change
alter type mood add value 'happy';
update t set m = 'happy' where id = 1;

-- change
alter type mood add value 'meh' before 'ok';
insert into t values (3, 'meh'), (4, null);

-- after
update t set m = 'meh' where id = 2;
