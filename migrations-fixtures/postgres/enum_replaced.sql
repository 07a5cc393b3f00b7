-- Another type takes the place of an enum by a cast through text: values could be others.
-- stream: text

-- before
create type mood as enum ('sad', 'ok', 'unused');
create table t (id int primary key, m mood);
insert into t values (1, 'sad'), (2, 'ok');

-- change
alter type mood rename to mood_old;
create type mood as enum ('sad', 'ok');
alter table t alter m type mood using m::text::mood;
drop type mood_old;
insert into t values (3, 'ok');

-- after
update t set m = 'ok' where id = 1;
