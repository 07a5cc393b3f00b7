-- Quotes, spaces, other scripts, reserved words, and a rename that changes case only.

-- before
create table "Odd ""Table""" (id int primary key, "select" text, "Ümläut" int);
insert into "Odd ""Table""" values (1, 's', 1), (2, 't', 2);
create table "with.dot" (id int primary key, "a.b" text);
insert into "with.dot" values (1, 'x');

-- change
alter table "Odd ""Table""" add column "two words" text;
alter table "Odd ""Table""" rename column "select" to "SELECT";
insert into "Odd ""Table""" values (3, 'u', 3, 'w');
update "Odd ""Table""" set "two words" = 'q"q' where id = 1;
alter table "with.dot" rename column "a.b" to "日本語";
alter table "with.dot" add column "it's | #" text;
insert into "with.dot" values (2, '値', '# a | b');

-- change
alter table "Odd ""Table""" add column "2 words" int;
insert into "Odd ""Table""" values (4, 'v', 4, 'w', 5);

-- after
update "Odd ""Table""" set "Ümläut" = 20 where id = 2;
update "with.dot" set "日本語" = '' where id = 1;
