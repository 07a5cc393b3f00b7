//! Schemas moved on by the statements that real servers log, held against what the servers' catalogs then say.

use calve_testkit::servers::{BINLOG_SERVERS, Kind, Options, Server as TestServer};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use std::sync::Arc;

use super::server_tests::statements;
use super::tests::table;
use super::*;
use crate::config::ConnectConfig;
use crate::connection;
use crate::describe::describe;
use crate::server::{Server, binlog_end};
use crate::types::attribute;
use calve_core::TableSchema;

/// What is expected of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Rows that are there stay as they are.
    Kept,
    /// They get values that the log does not carry.
    Rows,
    /// It cannot be judged.
    Stops,
}
use Expected::{Kept, Rows, Stops};

/// On which servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Both,
    MySql,
    MariaDb,
    /// Where the log carries generated columns.
    Generated,
}
use On::{Both, Generated, MariaDb, MySql};

impl On {
    fn holds(self, kind: Kind, version: &str) -> bool {
        match self {
            Both => true,
            MySql => kind == Kind::MySql,
            MariaDb => kind == Kind::MariaDb,
            Generated => version != "11.8",
        }
    }
}

const TABLE: &str = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v VARCHAR(10), n INT UNSIGNED NOT NULL DEFAULT 0, \
     e ENUM('a','b'), s SET('x','y') CHARACTER SET latin1, l TEXT CHARACTER SET latin1, d DATETIME, ts TIMESTAMP NULL, \
     x DECIMAL(8,2), b BLOB, f FLOAT, `c c` CHAR(5)) DEFAULT CHARACTER SET utf8mb4";

/// Columns as they are added: the definition, what becomes of rows, where it is known.
const DEFINITIONS: &[(&str, Expected, On)] = &[
    ("int", Kept, Both),
    ("int(11) unsigned zerofill not null default 0 comment 'x'", Rows, Both),
    ("integer signed", Kept, Both),
    ("int1", Kept, Both),
    ("int4 unsigned", Kept, Both),
    ("int8 unsigned zerofill", Kept, Both),
    ("middleint", Kept, Both),
    ("smallint(3) zerofill", Kept, Both),
    ("bigint unsigned", Kept, Both),
    ("serial", Rows, Both),
    ("bigint serial default value", Rows, Both),
    ("tinyint(1) null default null", Kept, Both),
    ("tinyint(1) unsigned", Kept, Both),
    ("tinyint(2)", Kept, Both),
    ("bool default true", Rows, Both),
    ("boolean not null", Rows, Both),
    ("bit(8) default b'101'", Rows, Both),
    ("bit", Kept, Both),
    ("bit(64)", Kept, Both),
    ("decimal", Kept, Both),
    ("decimal(10)", Kept, Both),
    ("dec(12,4) unsigned", Kept, Both),
    ("numeric(65,30) zerofill", Kept, Both),
    ("fixed(5,2)", Kept, Both),
    ("float(7,3) unsigned", Kept, Both),
    ("float(24)", Kept, Both),
    ("float(25)", Kept, Both),
    ("double precision default -1.5e-3", Rows, Both),
    ("double(10,2) unsigned zerofill", Kept, Both),
    ("real", Kept, Both),
    ("char", Kept, Both),
    ("char(3) binary", Kept, Both),
    ("char(10) character set latin1 collate latin1_bin", Kept, Both),
    ("char(10) charset utf8mb4 not null", Rows, Both),
    ("char(4) byte", Kept, Both),
    ("varchar(20) collate utf8mb4_bin", Kept, Both),
    ("varchar(20) collate latin1_german1_ci", Kept, Both),
    ("varchar(20) ascii", Kept, Both),
    ("varchar(20) unicode", Kept, Both),
    ("varchar(20) character set utf8", Kept, Both),
    ("varchar(20) character set binary", Kept, Both),
    ("national varchar(10)", Kept, Both),
    ("nvarchar(10)", Kept, Both),
    ("nchar(5)", Kept, Both),
    ("national char varying(10)", Kept, Both),
    ("character varying(20) character set ucs2", Kept, Both),
    ("long varchar", Kept, Both),
    ("long", Kept, Both),
    ("long varbinary", Kept, Both),
    ("text(63)", Kept, Both),
    ("text(64)", Kept, Both),
    ("text(20000) character set latin1", Kept, Both),
    ("text(20000)", Kept, Both),
    ("tinytext character set latin1", Kept, Both),
    ("mediumtext", Kept, Both),
    ("longtext collate utf8mb4_general_ci", Kept, Both),
    ("text character set binary", Kept, Both),
    ("binary(7)", Kept, Both),
    ("varbinary(20) not null default ''", Rows, Both),
    ("blob(70000)", Kept, Both),
    ("blob(200)", Kept, Both),
    ("tinyblob", Kept, Both),
    ("datetime(3) default current_timestamp(3) on update current_timestamp(3)", Rows, Both),
    ("datetime(0)", Kept, Both),
    ("timestamp null on update current_timestamp", Kept, Both),
    ("timestamp(6) null", Kept, Both),
    ("timestamp", Rows, Both),
    ("time(6)", Kept, Both),
    ("year", Kept, Both),
    ("year(4)", Kept, Both),
    ("date not null", Rows, Both),
    ("enum('a','it''s','x,y)','back\\\\slash','ü ') character set latin1 not null default 'a'", Rows, Both),
    ("enum('a','b ')", Kept, Both),
    ("set('a','b','c','d','e','f','g','h','i') collate utf8mb4_bin", Kept, Both),
    ("json", Kept, Both),
    ("json check (json_valid(c))", Kept, Both),
    ("point srid 4326", Kept, MySql),
    ("geometry ref_system_id=0", Kept, MariaDb),
    ("linestring", Kept, Both),
    ("geometrycollection", Kept, Both),
    ("multipolygon null", Kept, Both),
    ("int generated always as (id + 1) virtual", Rows, Generated),
    ("varchar(10) as (concat(v, 'x')) stored comment 'x'", Rows, Generated),
    ("int as (id + 1) persistent", Rows, On::Generated),
    ("int invisible", Kept, Both),
    ("int column_format dynamic storage disk", Kept, MySql),
    ("text compressed", Kept, MariaDb),
    ("varchar(100) compressed=zlib character set latin1", Kept, MariaDb),
    ("blob compressed", Kept, MariaDb),
    ("uuid", Kept, MariaDb),
    ("uuid default uuid()", Rows, MariaDb),
    ("inet6", Kept, MariaDb),
    ("inet4 not null", Rows, MariaDb),
    ("int unique key comment 'k'", Kept, Both),
    ("int references u(id) on delete set null on update cascade", Kept, Both),
    ("int constraint positive check (c > 1)", Kept, MySql),
    ("int check (c > 1) not enforced", Kept, MySql),
    ("int default (1 + 2)", Rows, Both),
    ("int after `c c`", Kept, Both),
    ("int first", Kept, Both),
    ("varchar(10) default _utf8mb4'x'", Rows, Both),
    ("varchar(10) default x'41'", Rows, Both),
    ("varchar(10) default 'two' ' parts'", Rows, MariaDb),
    ("vector(3)", Kept, MySql),
    ("vector", Kept, MySql),
    ("vector(3) comment 'x'", Kept, MySql),
    ("enum(x'41')", Stops, Both),
];

/// Statements upon the table, one after the other.
const ALTERS: &[(&str, Expected, On)] = &[
    ("ALTER TABLE t ADD COLUMN IF NOT EXISTS v INT, ADD IF NOT EXISTS w INT AFTER id", Kept, MariaDb),
    ("ALTER TABLE t DROP IF EXISTS nope, DROP COLUMN IF EXISTS w RESTRICT", Kept, MariaDb),
    ("ALTER TABLE t ADD (g INT, h VARCHAR(3) COLLATE latin1_bin, INDEX (h))", Kept, Both),
    (
        "ALTER TABLE t ADD i INT FIRST, ADD j INT AFTER i, ADD k INT, ADD INDEX (k), ALGORITHM=COPY, LOCK=SHARED",
        Kept,
        Both,
    ),
    ("ALTER TABLE t DROP i, DROP COLUMN j, ADD i INT AFTER k", Kept, Both),
    ("ALTER TABLE t DROP g, ADD g BIGINT", Kept, Both),
    ("ALTER TABLE t MODIFY V varchar(12)", Kept, Both),
    ("ALTER TABLE t CHANGE V v VARCHAR(20) COMMENT 'it''s'", Kept, Both),
    ("ALTER TABLE t CHANGE COLUMN v `v v` VARCHAR(20) FIRST, ADD m INT AFTER `v v`", Kept, Both),
    ("ALTER TABLE t RENAME COLUMN `v v` TO v, RENAME COLUMN m TO M", Kept, Both),
    ("ALTER TABLE t RENAME COLUMN g TO k, RENAME COLUMN k TO g", Kept, Both),
    ("ALTER TABLE t RENAME COLUMN IF EXISTS nope TO nopes", Kept, MariaDb),
    ("ALTER TABLE t MODIFY IF EXISTS nope INT, CHANGE IF EXISTS nope nopes INT", Kept, MariaDb),
    (
        "ALTER TABLE t MODIFY g BIGINT AFTER h, MODIFY h VARCHAR(9) COLLATE latin1_bin AFTER g, ADD o INT AFTER h",
        Kept,
        Both,
    ),
    ("ALTER TABLE t MODIFY n INT UNSIGNED NULL", Kept, Both),
    ("ALTER TABLE t MODIFY n BIGINT UNSIGNED", Kept, Both),
    ("ALTER TABLE t MODIFY n BIGINT", Rows, Both),
    ("ALTER TABLE t MODIFY n INT", Rows, Both),
    ("ALTER TABLE t MODIFY n INT NOT NULL", Kept, Both),
    ("ALTER TABLE t MODIFY id BIGINT", Kept, Both),
    ("ALTER TABLE t MODIFY id BIGINT AUTO_INCREMENT", Rows, Both),
    ("ALTER TABLE t MODIFY id BIGINT NOT NULL AUTO_INCREMENT COMMENT 'again'", Kept, Both),
    ("ALTER TABLE t MODIFY e ENUM('a','b','c d','ü') NULL", Kept, Both),
    ("ALTER TABLE t MODIFY e ENUM('b','a','c d','ü')", Rows, Both),
    ("ALTER TABLE t MODIFY e ENUM('b')", Rows, Both),
    ("ALTER TABLE t MODIFY e VARCHAR(10)", Rows, Both),
    ("ALTER TABLE t MODIFY s SET('x','y','z') CHARACTER SET latin1", Kept, Both),
    ("ALTER TABLE t MODIFY s SET('x','y','z')", Kept, Both),
    ("ALTER TABLE t MODIFY l MEDIUMTEXT CHARACTER SET latin1", Kept, Both),
    ("ALTER TABLE t MODIFY l MEDIUMTEXT CHARACTER SET utf8mb4", Kept, Both),
    ("ALTER TABLE t MODIFY l TEXT CHARACTER SET latin1", Rows, Both),
    ("ALTER TABLE t MODIFY d DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", Kept, Both),
    ("ALTER TABLE t MODIFY d DATETIME", Rows, Both),
    ("ALTER TABLE t MODIFY d TIMESTAMP NULL", Rows, Both),
    ("ALTER TABLE t MODIFY ts TIMESTAMP(6) NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP(6)", Kept, Both),
    ("ALTER TABLE t MODIFY ts TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)", Rows, Both),
    ("ALTER TABLE t MODIFY ts TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) COMMENT 'c'", Kept, Both),
    ("ALTER TABLE t MODIFY x DECIMAL(12,2)", Kept, Both),
    ("ALTER TABLE t MODIFY x DECIMAL(12,3)", Rows, Both),
    ("ALTER TABLE t MODIFY x DECIMAL(60,3)", Kept, Both),
    ("ALTER TABLE t MODIFY f DOUBLE", Kept, Both),
    ("ALTER TABLE t MODIFY f DOUBLE(8,2)", Rows, Both),
    ("ALTER TABLE t MODIFY b LONGBLOB", Kept, Both),
    ("ALTER TABLE t MODIFY b VARBINARY(40)", Rows, Both),
    ("ALTER TABLE t MODIFY b VARBINARY(400)", Kept, Both),
    ("ALTER TABLE t MODIFY `c c` CHAR(6)", Kept, Both),
    ("ALTER TABLE t MODIFY `c c` VARCHAR(6)", Kept, Both),
    ("ALTER TABLE t MODIFY `c c` CHAR(6)", Rows, Both),
    ("ALTER TABLE t MODIFY `c c` TEXT", Kept, Both),
    (
        "ALTER TABLE t ALTER COLUMN x SET DEFAULT 5, ALTER f DROP DEFAULT, COMMENT = 'ADD q INT', AUTO_INCREMENT = 7",
        Kept,
        Both,
    ),
    ("ALTER TABLE t ADD p VARCHAR(5), DEFAULT CHARACTER SET latin1", Kept, Both),
    ("ALTER TABLE t ADD q VARCHAR(5), MODIFY p VARCHAR(6)", Kept, Both),
    ("ALTER TABLE t COLLATE = utf8mb4_bin, ENGINE = InnoDB", Kept, Both),
    ("ALTER TABLE t ADD r TEXT", Kept, Both),
    ("ALTER TABLE t CHARSET utf8mb3 COLLATE utf8mb3_bin", Kept, Both),
    ("ALTER TABLE t ADD u TEXT, ADD y ENUM('x')", Kept, Both),
    ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", Kept, Both),
    ("ALTER TABLE t CONVERT TO CHARSET latin1", Rows, Both),
    ("ALTER TABLE t ADD INDEX idx (v), ADD UNIQUE (q), DROP INDEX h", Kept, Both),
    ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id), MODIFY id BIGINT NOT NULL", Kept, Both),
    ("ALTER TABLE t DROP PRIMARY KEY, ADD CONSTRAINT pk PRIMARY KEY USING BTREE (n DESC, id)", Kept, MySql),
    ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (n, id)", Kept, MariaDb),
    ("ALTER TABLE t DROP PRIMARY KEY, CHANGE id id2 BIGINT, ADD PRIMARY KEY (id2)", Kept, Both),
    ("ALTER TABLE t DROP PRIMARY KEY, ADD id INT AUTO_INCREMENT PRIMARY KEY FIRST", Rows, Both),
    ("/*!40101 ALTER TABLE t ADD z1 INT */", Kept, Both),
    ("ALTER TABLE t /*M!100300 ADD COLUMN z2 INT */", Kept, MariaDb),
    ("ALTER TABLE `d`.`t` ADD -- a comment\n z3 /* another */ INT # and one more", Kept, Both),
    ("ALTER ONLINE TABLE t ADD z4 INT, LOCK=NONE", Kept, MariaDb),
    ("ALTER TABLE t WAIT 5 ADD z5 INT", Kept, MariaDb),
    ("SET STATEMENT lock_wait_timeout = 5 FOR ALTER TABLE t ADD z6 INT", Kept, MariaDb),
    ("ALTER TABLE t ENGINE = MyISAM", Stops, Both),
    ("ALTER TABLE t ENGINE = InnoDB", Kept, Both),
    ("ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT", Stops, Both),
];

/// Everything but the columns' numbers, and what may be unique, which is said of columns that are not.
fn shown(schema: &TableSchema) -> Vec<String> {
    let column = |column: &calve_core::Column| {
        let native = &column.native;
        let ty = format!("{} {}/{} {:?}", native.name, native.id, native.modifier, native.character_set);
        let attributes: Vec<_> = native.attributes.iter().filter(|own| *own != attribute::UNIQUE).collect();
        format!("{} {:?} nullable: {} {ty} {attributes:?}", column.name, column.ty, column.nullable)
    };
    let mut lines: Vec<String> = schema.columns.iter().map(column).collect();
    lines.push(format!("key {:?} of {:?}", schema.key, schema.character_set));
    lines
}

/// A table on a server, and the schema that it has by its statements.
struct Followed {
    conn: Conn,
    server: Server,
    version: &'static str,
    schema: Arc<TableSchema>,
    ids: u32,
    wrong: Vec<String>,
}

impl Followed {
    /// Runs a statement; its schema must be what the catalog has then.
    async fn run(&mut self, sql: &str, sql_mode: u64, expected: Expected) {
        let version = self.version;
        let before = binlog_end(&mut self.conn, &self.server).await.unwrap();
        if let Err(error) = self.conn.query_drop(sql).await {
            self.wrong.push(format!("{version}: {sql}: {error}"));
            return;
        }
        let mut found = Kept;
        for (default_db, logged) in statements(&mut self.conn, &before.file, before.offset).await {
            let statement = Statement {
                flavour: self.server.flavour,
                default_db: &default_db,
                sql: &logged,
                sql_mode,
                lower_case_table_names: 0,
            };
            for effect in effects_of(&statement, &[table("d.t")]) {
                let DdlEffect::Altered { alteration, .. } = effect else { panic!("{version}: {sql}: {effect:?}") };
                let session = Session {
                    flavour: self.server.flavour,
                    tinyint1_as_boolean: false,
                    rules: None,
                    strict: true,
                    copy_of: None,
                };
                match alteration.apply(&self.schema, session) {
                    Ok(None) => {}
                    Ok(Some(change)) => {
                        self.numbered(&change.schema);
                        self.schema = change.schema;
                        if change.existing_rows.is_some() {
                            found = Rows;
                        }
                    }
                    Err(_) => found = Stops,
                }
            }
        }
        if found != expected {
            self.wrong.push(format!("{version}: {sql} is {found:?}, not {expected:?}"));
        }
        let described = describe(&mut self.conn, &self.server, &table("d.t")).await;
        if found == Stops {
            // As a table that is read again.
            self.schema = described.unwrap_or_else(|_| Arc::clone(&self.schema));
            return;
        }
        let described = described.unwrap_or_else(|error| panic!("{version}: {sql}: {error}"));
        let (ours, theirs) = (shown(&self.schema), shown(&described));
        if ours != theirs {
            let surplus: Vec<_> = ours.iter().filter(|line| !theirs.contains(line)).collect();
            let missing: Vec<_> = theirs.iter().filter(|line| !ours.contains(line)).collect();
            self.wrong.push(format!("{version}: {sql} has {surplus:?}, not {missing:?}"));
            self.schema = described;
        }
    }

    /// New columns have new numbers.
    fn numbered(&mut self, next: &TableSchema) {
        let known = self.schema.columns.iter().map(|column| column.id).max().unwrap_or(0);
        let old = |id: u32| self.schema.columns.iter().any(|column| column.id == id);
        for column in &next.columns {
            assert!(old(column.id) || column.id > known, "{} has number {}", column.name, column.id);
            self.ids += u32::from(!old(column.id));
        }
    }
}

#[tokio::test]
async fn schemas_go_where_the_catalog_goes() {
    let (mut altered, mut wrong) = (0, Vec::new());
    for (kind, version) in BINLOG_SERVERS {
        let server = TestServer::start(kind, version, &Options::default().set("binlog_row_metadata", "FULL")).unwrap();
        let admin = ConnectConfig::parse(&server.url(kind.superuser(), "").unwrap()).unwrap();
        let mut conn = connection::open(&admin).await.unwrap();
        let found = Server::read(&mut conn).await.unwrap();
        for sql in ["CREATE DATABASE d", "USE d", "CREATE TABLE u (id INT PRIMARY KEY)", TABLE] {
            conn.query_drop(sql).await.unwrap_or_else(|error| panic!("{version}: {sql}: {error}"));
        }
        let schema = describe(&mut conn, &found, &table("d.t")).await.unwrap();
        let mut followed = Followed { conn, server: found, version, schema, ids: 0, wrong: Vec::new() };
        for (definition, expected, _) in DEFINITIONS.iter().filter(|(_, _, on)| on.holds(kind, version)) {
            // MySQL knows STORED only.
            let definition =
                if kind == Kind::MySql { definition.replace("persistent", "stored") } else { (*definition).to_owned() };
            let added = format!("ALTER TABLE t ADD COLUMN c {definition}");
            if *expected == Stops {
                followed.run(&added, 0, Stops).await;
                let dropped = followed.conn.query_drop("ALTER TABLE t DROP c").await;
                wrong.extend(dropped.err().map(|error| format!("{version}: {definition}: {error}")));
                followed.schema = describe(&mut followed.conn, &followed.server, &table("d.t")).await.unwrap();
                continue;
            }
            followed.run(&added, 0, *expected).await;
            // Its definition once more, as MODIFY: nothing changes, but for what is computed.
            let again = definition.trim_end_matches(" after `c c`").trim_end_matches(" first");
            if !again.contains("check")
                && !again.contains("references")
                && !again.contains("unique")
                && !again.contains("serial")
            {
                let computed = if again.contains(" as (") || again == "timestamp" { Rows } else { Kept };
                followed.run(&format!("ALTER TABLE t MODIFY c {again}"), 0, computed).await;
                altered += 1;
            }
            let with_it = if definition.contains("references") { ", DROP FOREIGN KEY t_ibfk_1" } else { "" };
            followed.run(&format!("ALTER TABLE t DROP COLUMN c{with_it}"), 0, Kept).await;
            altered += 2;
        }
        for (sql, expected, _) in ALTERS.iter().filter(|(_, _, on)| on.holds(kind, version)) {
            followed.run(sql, 0, *expected).await;
            altered += 1;
        }
        followed
            .conn
            .query_drop("SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES,REAL_AS_FLOAT')")
            .await
            .unwrap();
        followed.run("ALTER TABLE t ADD \"a \"\"q\"\"\" REAL, ADD \"after\" INT AFTER \"v\"", 5, Kept).await;
        wrong.extend(followed.wrong);
        assert!(followed.ids > 100, "{} columns were added", followed.ids);
    }
    assert!(wrong.is_empty(), "{} of {altered}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(altered > 3 * 200, "{altered} statements were run");
}
