-- Comments, versions, quotes, line ends and letters of either case.

-- before
create table t (id int primary key, v varchar(20));
insert into t values (1, 'a'), (2, 'b');

-- change
/* first */ AlTeR /* in it */ TaBlE `t` /*!50503 add column in_a_comment int */;
insert into t values (3, 'c', 3);
alter table t
  add column # to the end of the line
    rest int
  , add x int null default null comment 'not "x" at all; drop column v';
insert into t values (5, 'e', null, 5, 5);

-- change
set sql_mode = 'ANSI_QUOTES';
alter table "t" add column "a ""quoted"" one" int;
insert into t (id, v, "a ""quoted"" one") values (4, 'd', 4);
set sql_mode = default;

-- after
update t set rest = 9 where id = 1;
