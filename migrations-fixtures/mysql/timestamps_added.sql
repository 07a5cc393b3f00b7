-- A TIMESTAMP said to be NULL, one that the session decides over, a moment by default.

-- before
create table t (id int primary key);
insert into t values (1);
create table unsaid (id int primary key);
insert into unsaid values (1);
create table filled (id int primary key);
insert into filled values (1);

-- change
alter table t add at timestamp(3) null, add seen datetime(6) null on update current_timestamp(6);
insert into t values (2, '2026-01-02 03:04:05.678', '1000-01-01');
alter table unsaid add at timestamp;
insert into unsaid values (2, '2026-01-02 03:04:05');
alter table filled add at datetime not null default '2000-01-01 00:00:00';
insert into filled values (2, '2026-01-02 03:04:05');

-- after
update t set at = '1970-01-01 00:00:01', seen = '2026-01-01' where id = 1;
update unsaid set at = '2026-01-02 03:04:06' where id = 1;
update filled set at = '9999-12-31 23:59:59' where id = 1;
