//! Merged schemas step by step, as statements make and alter their members.

use std::borrow::Cow;

use super::*;
use crate::binlog::query::Query;
use crate::conversions::Conversions;
use crate::ddl::{NewTable, Statement};
use crate::effects::{Effect, Statements};

fn merge() -> Merge {
    Merge::new(TableName::new("shop", "orders"), "shard", "s_*.orders", |table| {
        (table.schema.starts_with("s_") && table.name == "orders").then(|| table.schema.clone())
    })
}

fn member(number: u32) -> TableName {
    TableName::new(format!("s_{number}"), "orders")
}

/// `number:name type[?]` of each column, `?` where NULL may be in it, `[name]` where it is of the key; then what each group of members
/// has, and has lost.
fn shown(schema: &TableSchema) -> String {
    let column = |(at, column): (usize, &Column)| {
        let name = if schema.key.contains(&at) { format!("[{}]", column.name) } else { column.name.clone() };
        format!("{}:{name} {}{}", column.id, column.ty, if column.nullable { "?" } else { "" })
    };
    let columns: Vec<String> = schema.columns.iter().enumerate().map(column).collect();
    let members = schema.members.iter().map(|alike| {
        let tables: Vec<&str> = alike.tables.iter().map(|table| table.schema.as_str()).collect();
        let columns: Vec<&str> = alike.shape.columns.iter().map(|column| column.name.as_str()).collect();
        let lost: Vec<String> = alike.shape.lost.iter().map(|name| format!(" -{name}")).collect();
        format!("{}({}{})", tables.join("+"), columns.join(" "), lost.concat())
    });
    format!("{} | {}", columns.join(", "), members.collect::<Vec<_>>().join(" "))
}

/// Does a statement to a member, or makes it. The schema afterwards, with what became of rows that were there; or why it stops.
fn done(schema: &TableSchema, number: u32, sql: &str) -> Result<(TableSchema, Option<String>), String> {
    let (member, with) = (member(number), (Flavour::MySql, &Conversions::default()));
    let change = if sql.starts_with("CREATE") {
        let statement = Statement {
            flavour: Flavour::MySql,
            default_db: &member.schema,
            sql,
            sql_mode: 0,
            lower_case_table_names: 0,
        };
        joined(schema, &member, NewTable::read(&statement).as_ref(), with)
    } else {
        let statements = Statements::new(Flavour::MySql, 0, vec![member.clone()]);
        let query = Query {
            database: &member.schema,
            sql: Cow::Borrowed(sql.as_bytes()),
            error: 0,
            flags: None,
            sql_mode: Some(1 << 21),
            charset_client: None,
            xid: None,
        };
        let effects = statements.effects(&query, &[]);
        let [(_, Effect::Alter(alter))] = &effects[..] else { panic!("{sql}: {effects:?}") };
        altered(schema, &member, alter, with)
    };
    match change {
        Ok(None) => Ok((schema.clone(), None)),
        Ok(Some(change)) => Ok((Arc::unwrap_or_clone(change.schema), change.existing_rows)),
        Err(reason) => Err(format!("{}; {}", reason.detail, reason.remedy)),
    }
}

const CREATE: &str =
    "CREATE TABLE orders (id INT NOT NULL, v VARCHAR(10), n INT NOT NULL, PRIMARY KEY (id)) CHARSET utf8mb4";

fn two() -> TableSchema {
    let one = done(&empty(&merge(), TableMode::Upsert), 1, CREATE).unwrap().0;
    done(&one, 2, "CREATE TABLE orders LIKE s_1.orders").unwrap().0
}

#[test]
fn members_that_are_alike_make_one_table() {
    let schema = two();
    let expected = "1:[shard] string, 2:[id] int, 3:v string?, 4:n int | s_1+s_2(id v n)";
    assert_eq!(shown(&schema), expected);
    assert_eq!(
        (schema.key.clone(), schema.member(&member(2)), schema.member(&member(3))),
        (vec![0, 1], schema.member(&member(1)), None)
    );
    // As the stamp keeps it.
    let kept: TableSchema = serde_json::from_str(&serde_json::to_string(&schema).unwrap()).unwrap();
    assert_eq!(kept, schema);
}

#[test]
fn members_may_be_unlike_for_a_while() {
    let mut schema = two();
    for (number, sql, expected) in [
        (
            1,
            "ALTER TABLE orders ADD w BIGINT",
            "1:[shard] string, 2:[id] int, 3:v string?, 4:n int, 5:w long? | s_2(id v n) s_1(id v n w)",
        ),
        // In another order, and in other letters.
        (
            2,
            "ALTER TABLE orders ADD W BIGINT FIRST",
            "1:[shard] string, 2:[id] int, 3:v string?, 4:n int, 5:w long? | s_1(id v n w) s_2(W id v n)",
        ),
        (
            2,
            "ALTER TABLE orders MODIFY n BIGINT NOT NULL",
            "1:[shard] string, 2:[id] int, 3:v string?, 4:n long, 5:w long? | s_1(id v n w) s_2(W id v n)",
        ),
        (
            1,
            "ALTER TABLE orders DROP v",
            "1:[shard] string, 2:[id] int, 3:v string?, 4:n long, 5:w long? | s_2(W id v n) s_1(id n w -v)",
        ),
        (
            3,
            "CREATE TABLE orders (n INT NOT NULL, id INT PRIMARY KEY, extra DATE)",
            "1:[shard] string, 2:[id] int, 3:v string?, 4:n long, 5:w long?, 6:extra date? | s_2(W id v n) s_1(id n w -v) s_3(n id extra)",
        ),
        // The last one: nobody has it any more.
        (
            2,
            "ALTER TABLE orders DROP v",
            "1:[shard] string, 2:[id] int, 4:n long, 5:w long?, 6:extra date? | s_1(id n w) s_3(n id extra) s_2(W id n)",
        ),
        // Under the name that was there, another column.
        (
            1,
            "ALTER TABLE orders ADD v INT",
            "1:[shard] string, 2:[id] int, 4:n long, 5:w long?, 6:extra date?, 7:v int? | s_3(n id extra) s_2(W id n) s_1(id n w v)",
        ),
        (
            3,
            "ALTER TABLE orders DROP extra, ADD extra INT",
            "1:[shard] string, 2:[id] int, 4:n long, 5:w long?, 7:v int?, 8:extra int? | s_2(W id n) s_1(id n w v) s_3(n id extra)",
        ),
    ] {
        let (next, rows) = done(&schema, number, sql).unwrap_or_else(|why| panic!("{sql}: {why}"));
        assert_eq!((shown(&next).as_str(), rows), (expected, None), "{sql}");
        // Each step is one that rows in the lake can follow.
        let evolution = schema.evolution(&next);
        assert_eq!(evolution, calve_core::Evolution::Kept, "{sql}");
        schema = next;
    }
}

#[test]
fn what_cannot_agree_names_member_and_column() {
    for (number, sql, says) in [
        (1, "ALTER TABLE orders MODIFY v INT", "column v of s_1.orders is int, which is int in the lake"),
        (2, "ALTER TABLE orders ADD shard INT", "s_2.orders has a column shard"),
        (2, "ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)", "the primary key of s_2.orders is (id, n)"),
        (
            2,
            "ALTER TABLE orders DROP nothing",
            "of its member s_2.orders: it was altered in a way that cannot be followed",
        ),
        (3, "CREATE TABLE orders (id INT, n DATE NOT NULL, PRIMARY KEY (id))", "column n of s_3.orders is date"),
        (3, "CREATE TABLE orders (id INT)", "s_3.orders has no primary key"),
        (3, "CREATE TABLE orders LIKE other.t", "what it is like, other.t, is none of its members"),
        (3, "CREATE TABLE orders (id INT PRIMARY KEY) ENGINE=MyISAM", "the statement is not understood"),
        (3, "CREATE TABLE orders (id INT PRIMARY KEY) AS SELECT 1 AS id", "the statement is not understood"),
    ] {
        let why = done(&two(), number, sql).map(|(schema, rows)| (shown(&schema), rows)).unwrap_err();
        assert!(why.contains(says) && why.contains("calve reload shop.orders"), "{sql}: {why}");
    }
}

#[test]
fn rows_that_are_otherwise_in_the_lake_are_told_of() {
    let mut schema = two();
    for (number, sql, says) in [
        (1, "ALTER TABLE orders RENAME COLUMN v TO v2", "of its member s_1.orders: column \"v\" was renamed to \"v2\""),
        (
            1,
            "ALTER TABLE orders ADD d INT DEFAULT 5",
            "of its member s_1.orders: column \"d\" was added with a default",
        ),
        (1, "ALTER TABLE orders DROP v, ADD v VARCHAR(10)", "column \"v\" was dropped and came again"),
        (1, "ALTER TABLE orders RENAME COLUMN v TO V", ""),
    ] {
        let (_, rows) = done(&schema, number, sql).unwrap_or_else(|why| panic!("{sql}: {why}"));
        let rows = rows.unwrap_or_default();
        assert!(rows.contains(says) && rows.is_empty() == says.is_empty(), "{sql}: {rows}");
    }
    schema = done(&schema, 1, "ALTER TABLE orders DROP v").unwrap().0;
    assert_eq!(schema.lost_columns().collect::<Vec<_>>(), [("v", &member(1))]);
    let (_, rows) = done(&schema, 1, "ALTER TABLE orders ADD v VARCHAR(10)").unwrap();
    assert!(rows.unwrap().contains("column \"v\" was dropped and came again"));
    let chosen = TableSchema { filter: Some("v = 'x'".to_owned()), ..two() };
    let (_, rows) = done(&chosen, 2, "ALTER TABLE orders DROP v").unwrap();
    assert!(rows.unwrap().contains("by which 'where' chooses rows"));
}

#[test]
fn a_member_is_read_into_the_places_of_its_names() {
    let mut schema = two();
    for (number, sql) in [
        (1, "ALTER TABLE orders ADD w INT FIRST"),
        (1, "ALTER TABLE orders MODIFY n BIGINT NOT NULL"),
        (2, "ALTER TABLE orders ADD x DATE AFTER id"),
    ] {
        schema = done(&schema, number, sql).unwrap().0;
    }
    let read = |number| AsMember::of(&schema, &member(number)).unwrap();
    assert_eq!((read(1).places, read(1).absent), (vec![4, 1, 2, 3], vec![5]));
    let two = read(2);
    assert_eq!((two.places, two.absent), (vec![1, 5, 2, 3], vec![4]));
    // Its own type as the log has it, and the one that the lake has.
    let n = two.schema.columns.iter().find(|column| column.name == "n").unwrap();
    assert_eq!((&n.ty, n.native.name.as_str()), (&ColumnType::Long, "int"));
    assert!(AsMember::of(&schema, &member(3)).is_none());
}

#[test]
fn definitions_are_read_as_the_servers_print_them() {
    let printed = "CREATE TABLE IF NOT EXISTS `s_3`.`orders` (\n  `id` bigint unsigned NOT NULL AUTO_INCREMENT,\n  `v` varchar(20) \
                   COLLATE utf8mb4_bin DEFAULT 'a,b)',\n  `e` enum('x','y') NOT NULL DEFAULT 'x',\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `u` \
                   (`v`),\n  KEY `k` (`e`,`v`(3)),\n  CONSTRAINT `c` CHECK ((`id` > 0)),\n  CONSTRAINT `f` FOREIGN KEY (`v`) REFERENCES `z` \
                   (`v`) ON DELETE CASCADE\n) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci \
                   COMMENT='select as'";
    let (schema, _) = done(&empty(&merge(), TableMode::Upsert), 3, printed).unwrap();
    assert_eq!(shown(&schema), "1:[shard] string, 2:[id] decimal(20,0), 3:v string?, 4:e string | s_3(id v e)");
    assert_eq!(schema.members[0].shape.character_set.as_deref(), Some("utf8mb4"));
    for (sql, columns) in [
        ("CREATE TABLE orders (id INT, PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 4", "s_3(id)"),
        ("CREATE TABLE orders (id INT PRIMARY KEY) START TRANSACTION", "s_3(id)"),
        ("CREATE TABLE orders (a INT, b INT, CONSTRAINT PRIMARY KEY USING BTREE (b, a))", "s_3(a b)"),
    ] {
        let (schema, _) =
            done(&empty(&merge(), TableMode::Upsert), 3, sql).unwrap_or_else(|why| panic!("{sql}: {why}"));
        assert!(shown(&schema).ends_with(columns), "{}", shown(&schema));
    }
}

/// A copy that a tool builds of a member has its rows a second time; and what was merged by another pattern has other origins.
#[test]
fn copies_of_members_are_none() {
    let merge = Merge::new(TableName::new("shop", "all"), "origin", "s_*.*", |table| Some(table.schema.clone()));
    for (name, is_member) in [
        ("orders", true),
        ("_orders", true),
        ("orders_new", true),
        ("_new", true),
        ("_orders_gho", false),
        ("_orders_ghc", false),
        ("_orders_20250131235959_del", false),
        ("_orders_new", false),
        ("__orders_old", false),
    ] {
        assert_eq!(merge.origin_of(&TableName::new("s_1", name)).is_some(), is_member, "{name}");
    }
    let wider = Merge::new(TableName::new("shop", "all"), "origin", "s_*.ord*", |table| Some(table.name.clone()));
    assert_ne!(merge.native_origin(), wider.native_origin());
}
