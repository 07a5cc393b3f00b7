-- Three hundred columns, and one more.

-- before
do $$ begin
  execute 'create table t (id int primary key, ' || (select string_agg('c' || i || ' int', ', ' order by i) from generate_series(1, 300) i) || ')';
end $$;
insert into t (id, c1, c150, c300) values (1, 1, 150, 300), (2, 2, null, -300);

-- change
alter table t add column c301 text;
update t set c301 = 'wide' where id = 1;
alter table t drop column c150;
insert into t (id, c149, c151, c301) values (3, 149, 151, 'w');

-- after
update t set c300 = 0 where id = 2;
