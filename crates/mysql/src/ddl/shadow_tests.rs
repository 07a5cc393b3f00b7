use calve_core::TableSchema;

use super::super::apply_tests::{STRICT, schema, shown};
use super::super::tests::table;
use super::super::{DdlEffect, Flavour, Statement, effects_of};
use super::*;

const COLUMNS: &str = "a INT, v VARCHAR(10), n INT, e DECIMAL(8,2) NOT NULL";

fn effects(flavour: Flavour, sql: &str) -> Vec<DdlEffect> {
    let statement = Statement { flavour, default_db: "d", sql, sql_mode: 0, lower_case_table_names: 0 };
    effects_of(&statement, &[table("d.t"), table("d._t_gho")])
}

/// `d.t` while its copy is altered by these statements, one after the other.
fn built(flavour: Flavour, statements: &[&str]) -> TableSchema {
    let before = schema(flavour, COLUMNS);
    let mut shadow = *before.with_shadow(table("d._t_gho")).shadow.unwrap();
    for sql in statements {
        let effects = effects(flavour, sql);
        let [DdlEffect::Altered { alteration, .. }] = effects.as_slice() else { panic!("{sql}: {effects:?}") };
        shadow = alteration.apply_to_shadow(&before, &shadow, Session { flavour, ..STRICT });
    }
    TableSchema { shadow: Some(Box::new(shadow)), ..before }
}

#[test]
fn what_a_copy_gets_the_table_gets_under_its_own_numbers() {
    for (statements, expected) in [
        (
            &["ALTER TABLE _t_gho ADD w INT"][..],
            "1 id int!, 2 a int, 3 v varchar(10), 4 n int, 5 e decimal(8,2)!, 6 w int key id",
        ),
        (
            &["ALTER TABLE _t_gho DROP e, ADD w INT AFTER id"],
            "1 id int!, 6 w int, 2 a int, 3 v varchar(10), 4 n int key id",
        ),
        // The number of a column that is gone from the copy is still the table's.
        (
            &["ALTER TABLE _t_gho DROP e", "ALTER TABLE _t_gho ADD w INT"],
            "1 id int!, 2 a int, 3 v varchar(10), 4 n int, 6 w int key id",
        ),
        (
            &["ALTER TABLE _t_gho CHANGE v title VARCHAR(20), MODIFY n BIGINT", "ALTER TABLE _t_gho AUTO_INCREMENT=77"],
            "1 id int!, 2 a int, 3 title varchar(20), 4 n bigint, 5 e decimal(8,2)! key id",
        ),
        (
            &[
                "ALTER TABLE _t_gho ENGINE=InnoDB, ADD INDEX (v), ALTER a SET DEFAULT 7, DROP INDEX x, COMMENT 'PARTITION BY'",
            ],
            "1 id int!, 2 a int, 3 v varchar(10), 4 n int, 5 e decimal(8,2)! key id",
        ),
        (
            &["ALTER TABLE _t_gho MODIFY e DECIMAL(12,2) NULL, REMOVE PARTITIONING"],
            "1 id int!, 2 a int, 3 v varchar(10), 4 n int, 5 e decimal(12,2) key id",
        ),
        (
            &["ALTER TABLE _t_gho ADD (w INT, KEY (a), CONSTRAINT INDEX k (n), FULLTEXT (v))"],
            "1 id int!, 2 a int, 3 v varchar(10), 4 n int, 5 e decimal(8,2)!, 6 w int key id",
        ),
        // Into what a table itself has no way: the engine decides.
        (&["ALTER TABLE _t_gho DROP PRIMARY KEY"], "refused"),
    ] {
        for flavour in [Flavour::MySql, Flavour::MariaDb] {
            let table = built(flavour, statements);
            let copy = table.shadow.as_ref().unwrap();
            let found = if copy.refused.is_some() { "refused".to_owned() } else { shown(&table.of_shadow().unwrap()) };
            let plain = |text: &str| text.replace("int(11)", "int").replace("bigint(20)", "bigint");
            assert_eq!(plain(&found), expected, "{statements:?}: {:?}", copy.refused);
        }
    }
}

#[test]
fn a_copy_whose_rows_may_be_others_is_refused() {
    for (statements, why) in [
        (&["ALTER TABLE _t_gho ADD w INT DEFAULT 5"][..], "\"w\" was added with a default"),
        (&["ALTER TABLE _t_gho ADD w INT NOT NULL"], "\"w\" was added as NOT NULL"),
        (&["ALTER TABLE _t_gho ADD w INT AUTO_INCREMENT UNIQUE"], "unique index"),
        (&["ALTER TABLE _t_gho ADD w INT GENERATED ALWAYS AS (a + 1) STORED"], "\"w\" is computed"),
        // Empty it is altered without a row, and the rows come after.
        (
            &["ALTER TABLE _t_gho ADD w INT", "ALTER TABLE _t_gho ALTER w SET DEFAULT 5"],
            "\"w\" was added and got a default",
        ),
        (
            &["ALTER TABLE _t_gho ADD w INT", "ALTER TABLE _t_gho MODIFY w INT DEFAULT 5"],
            "\"w\" was added with a default",
        ),
        (&["ALTER TABLE _t_gho ADD w INT", "ALTER TABLE _t_gho MODIFY w INT NOT NULL"], "\"w\" was added as NOT NULL"),
        (&["ALTER TABLE _t_gho MODIFY a INT NOT NULL"], "\"a\" became NOT NULL, and rows with NULL in it got a value"),
        (&["ALTER TABLE _t_gho ADD UNIQUE KEY (a)"], "unique index"),
        (&["ALTER TABLE _t_gho ADD CONSTRAINT u UNIQUE (a)"], "unique index"),
        (&["CREATE UNIQUE INDEX u ON _t_gho (a)"], "unique index"),
        (&["ALTER TABLE _t_gho MODIFY a INT UNIQUE"], "unique index"),
        (&["ALTER TABLE _t_gho ADD CHECK (a > 1)"], "constraint"),
        (&["ALTER TABLE _t_gho ADD w INT CHECK (w > 1)"], "constraint"),
        (&["ALTER TABLE _t_gho ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES x (id)"], "constraint"),
        (&["ALTER TABLE _t_gho ADD (w INT NULL, UNIQUE KEY u (a))"], "unique index"),
        (&["ALTER TABLE _t_gho ADD (w INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES x (id))"], "constraint"),
        (&["ALTER TABLE _t_gho ADD (w INT, CONSTRAINT text CHECK (a > 1))"], "constraint"),
        (&["ALTER TABLE _t_gho ADD (w INT, CONSTRAINT UNIQUE (a))"], "unique index"),
        (&["ALTER TABLE _t_gho ADD (w INT, CHECK (a > 1))"], "constraint"),
        // An update that is mirrored sets it.
        (&["ALTER TABLE _t_gho ADD w DATETIME NULL ON UPDATE CURRENT_TIMESTAMP"], "\"w\" was added with ON UPDATE"),
        (
            &["ALTER TABLE _t_gho ADD w DATETIME NULL", "ALTER TABLE _t_gho MODIFY w DATETIME NULL ON UPDATE NOW()"],
            "\"w\" was added with ON UPDATE",
        ),
        (&["ALTER TABLE _t_gho PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))"], "partitions"),
        (&["ALTER TABLE _t_gho ENGINE=InnoDB PARTITION BY HASH (id) PARTITIONS 4"], "partitions"),
        (&["ALTER TABLE _t_gho DROP PRIMARY KEY, ADD PRIMARY KEY (a)"], "unique index"),
        // Values follow names.
        (&["ALTER TABLE _t_gho RENAME COLUMN a TO b"], "RENAME COLUMN"),
        (&["ALTER TABLE _t_gho DROP a, ADD a BIGINT"], "another column has the name \"a\""),
        (&["ALTER TABLE _t_gho CHANGE a b INT, ADD a INT"], "another column has the name \"a\""),
        (&["ALTER TABLE _t_gho CHANGE a n INT, CHANGE n a INT"], "another column has the name"),
        (&["ALTER TABLE _t_gho CHANGE A b INT"], "in a way in which"),
        (&["ALTER TABLE _t_gho CHANGE a b INT FIRST"], "in a way in which"),
        (&["ALTER TABLE _t_gho CHANGE a b INT", "ALTER TABLE _t_gho CHANGE b c INT"], "in a way in which"),
        // Types, and what is equal.
        (&["ALTER TABLE _t_gho MODIFY v VARCHAR(5)"], "\"v\" changed from"),
        (&["ALTER TABLE _t_gho MODIFY a SMALLINT"], "\"a\" changed from"),
        (&["ALTER TABLE _t_gho CONVERT TO CHARACTER SET utf8mb4"], "were converted"),
        (&["ALTER TABLE _t_gho MODIFY v VARCHAR(10) COLLATE utf8mb4_bin"], "another collation"),
        (&["ALTER TABLE _t_gho MODIFY v VARCHAR(10) CHARACTER SET latin1"], "another collation"),
        (
            &["ALTER TABLE _t_gho DEFAULT CHARACTER SET latin1", "ALTER TABLE _t_gho MODIFY v VARCHAR(10)"],
            "changed from",
        ),
        (&["ALTER TABLE _t_gho ENGINE=BLACKHOLE"], "cannot be followed"),
    ] {
        let table = built(Flavour::MySql, statements);
        let refused = table.shadow.unwrap().refused.unwrap_or_default();
        assert!(refused.contains(why), "{statements:?} is refused with '{refused}'");
    }
}

/// The tools write every column that the table has.
#[test]
fn a_column_of_the_table_may_be_set_by_updates() {
    let before = schema(Flavour::MySql, "d DATETIME, w DATETIME");
    let shadow = *before.with_shadow(table("d._t_gho")).shadow.unwrap();
    for sql in [
        "ALTER TABLE _t_gho MODIFY d DATETIME NULL ON UPDATE NOW()",
        "ALTER TABLE _t_gho CHANGE d x DATETIME ON UPDATE NOW()",
    ] {
        let effects = effects(Flavour::MySql, sql);
        let [DdlEffect::Altered { alteration, .. }] = effects.as_slice() else { panic!("{sql}: {effects:?}") };
        assert_eq!(alteration.apply_to_shadow(&before, &shadow, STRICT).refused, None, "{sql}");
    }
}

/// A collation that is not named is the table's. That matters where texts are compared.
#[test]
fn a_text_under_a_unique_index_is_not_redefined() {
    let mut before = schema(Flavour::MySql, "v VARCHAR(10) COLLATE utf8mb4_bin, w VARCHAR(10), n INT");
    before.columns[1].native.attributes.push(attribute::UNIQUE.to_owned());
    let shadow = *before.with_shadow(table("d._t_gho")).shadow.unwrap();
    for (statements, is_refused) in [
        (&["ALTER TABLE _t_gho MODIFY v VARCHAR(20)"][..], true),
        (&["ALTER TABLE _t_gho CHANGE v x VARCHAR(10)"], true),
        (&["ALTER TABLE _t_gho COLLATE utf8mb4_bin", "ALTER TABLE _t_gho MODIFY v VARCHAR(10)"], true),
        (&["ALTER TABLE _t_gho COLLATE utf8mb4_bin, MODIFY v VARCHAR(10)"], true),
        (&["ALTER TABLE _t_gho COLLATE utf8mb4_bin, MODIFY w VARCHAR(20), MODIFY n BIGINT, DROP v"], false),
    ] {
        let mut copy = shadow.clone();
        for sql in statements {
            let effects = effects(Flavour::MySql, sql);
            let [DdlEffect::Altered { alteration, .. }] = effects.as_slice() else { panic!("{sql}: {effects:?}") };
            copy = alteration.apply_to_shadow(&before, &copy, STRICT);
        }
        let refused = copy.refused.unwrap_or_default();
        assert_eq!(refused.contains("another collation"), is_refused, "{statements:?}: {refused}");
    }
}

/// What is refused once stays so, whatever comes after.
#[test]
fn nothing_mends_a_copy() {
    let statements =
        ["ALTER TABLE _t_gho ADD UNIQUE KEY u (a)", "ALTER TABLE _t_gho DROP KEY u", "ALTER TABLE _t_gho ADD w INT"];
    let copy = built(Flavour::MySql, &statements).shadow.unwrap();
    assert!(copy.refused.is_some() && copy.columns.len() == 5, "{copy:?}");
}

#[test]
fn copies_are_known_by_their_names() {
    let long = "l".repeat(64);
    for (name, of, is) in [
        ("_t_new", "t", true),
        ("__________t_new", "t", true),
        ("___________t_new", "t", false),
        ("t_new", "t", false),
        ("_u_new", "t", false),
        ("__t_new", "_t", true),
        ("_t_new", "_t", false),
        ("_t_new2", "t", false),
        (&format!("_{}", &long[..63]), &long, true),
        (&format!("_{}", &long[..62]), &long, false),
    ] {
        assert_eq!(is_new(&TableName::new("d", name), &TableName::new("d", of)), is, "{name} of {of}");
    }
    assert!(!is_new(&table("e._t_new"), &table("d.t")));
    for (name, ghost, past) in [
        ("_t_gho", true, false),
        ("__gho", false, false),
        ("t_gho", false, false),
        ("_t_ghc", false, false),
        ("_t_del", false, true),
        ("_t_20250131235959_del", false, true),
        ("_del", false, false),
    ] {
        assert_eq!((is_ghost(name), is_ghosts_past(name)), (ghost, past), "{name}");
    }
}

#[test]
fn making_a_copy_is_told_from_making_any_table() {
    for (sql, expected) in [
        ("create /* gh-ost */ table `d`.`_x_gho` like `d`.`t`", "like"),
        ("CREATE TABLE _x_gho (LIKE t)", "like"),
        ("CREATE TABLE e._t_gho LIKE d.t", "like"),
        ("CREATE TABLE _x_gho LIKE x", ""),
        ("CREATE TABLE _t_new LIKE t", ""),
        ("CREATE TABLE x LIKE t", ""),
        ("CREATE TABLE IF NOT EXISTS _x_gho LIKE t", ""),
        ("CREATE TABLE _x_gho AS SELECT * FROM t", ""),
        ("CREATE TABLE `d`.`_t_new` (id INT, PRIMARY KEY (id)) ENGINE=InnoDB", "written"),
        ("CREATE TABLE _t_new (id INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))", "written"),
        (
            "CREATE TABLE _t_new (id INT) PARTITION BY LIST (id) (PARTITION p VALUES IN (9)) COMMENT 'AS SELECT'",
            "written",
        ),
        // What fills it at once.
        ("CREATE TABLE _t_new (id INT) SELECT 1", ""),
        ("CREATE TABLE _t_new (id INT) ENGINE=InnoDB AS SELECT 1 AS id", ""),
        ("CREATE TABLE _t_new (id INT) (SELECT 1)", ""),
        ("CREATE TABLE _t_new (id INT) IGNORE SELECT 1", ""),
        ("CREATE TABLE _t_new (id INT) REPLACE TABLE t", ""),
        ("CREATE TABLE _t_new (id INT) VALUES ROW(1)", ""),
        ("CREATE TABLE _t_new (id INT) ENGINE=InnoDB START TRANSACTION", ""),
        ("CREATE TABLE _t_new (id INT) WITH x AS (SELECT 1) SELECT * FROM x", ""),
        ("CREATE TABLE _t_new AS SELECT * FROM t", ""),
        ("CREATE TABLE _u_new (id INT)", ""),
    ] {
        let found: Vec<_> = effects(Flavour::MySql, sql)
            .into_iter()
            .filter_map(|effect| match effect {
                DdlEffect::Copied { of, written, .. } => {
                    assert_eq!(of, table("d.t"));
                    Some(if written.is_some() { "written" } else { "like" })
                }
                _ => None,
            })
            .collect();
        assert_eq!(found.concat(), expected, "{sql}");
    }
}

/// pt-online-schema-change makes its copy by what SHOW CREATE TABLE says of the table.
#[test]
fn a_copy_that_was_written_is_held_against_the_table() {
    let same = "`id` int NOT NULL, `a` int DEFAULT NULL, `v` varchar(10) COLLATE utf8mb4_bin DEFAULT NULL, `n` int DEFAULT NULL, \
                `e` decimal(8,2) NOT NULL, PRIMARY KEY (`id`), UNIQUE KEY `u` (`a`), KEY `k` (`v`(3)), \
                CONSTRAINT `c` CHECK ((`a` > 1))";
    let options = "ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci /*!50100 PARTITION BY HASH (`id`) */";
    let replaced = |from: &str, to: &str| {
        assert!(same.contains(from), "{from}");
        same.replace(from, to)
    };
    let of_latin1 = options.replace("utf8mb4_0900_ai_ci", "latin1_bin").replace("utf8mb4", "latin1");
    for (columns, options, expected) in [
        (same.to_owned(), options, None),
        (
            replaced("`n` int DEFAULT NULL", "`n` int DEFAULT NULL, `g` int GENERATED ALWAYS AS (`n` + 1) VIRTUAL"),
            options,
            None,
        ),
        (replaced("`n` int", "`n` bigint"), options, Some("other types")),
        (
            replaced("KEY `k`", "CONSTRAINT `_f` FOREIGN KEY (`n`) REFERENCES `x` (`id`), KEY `k`"),
            options,
            Some("a foreign key"),
        ),
        (replaced("`a` int DEFAULT NULL", "`a` int NOT NULL"), options, Some("other types")),
        (replaced("`a` int DEFAULT NULL, ", ""), options, Some("other columns")),
        (replaced("`a` int DEFAULT NULL", "`b` int DEFAULT NULL"), options, Some("other columns")),
        (replaced("PRIMARY KEY (`id`)", "PRIMARY KEY (`id`, `e`)"), options, Some("another primary key")),
        (replaced("PRIMARY KEY (`id`), ", ""), options, Some("another primary key")),
        (replaced(" COLLATE utf8mb4_bin", ""), &of_latin1, Some("other types")),
    ] {
        let sql = format!("CREATE TABLE `d`.`_t_new` ({columns}) {options}");
        let effects = effects(Flavour::MySql, &sql);
        let [DdlEffect::Copied { written: Some(written), .. }] = effects.as_slice() else {
            panic!("{sql}: {effects:?}")
        };
        let found = written.differs_from(&schema(Flavour::MySql, COLUMNS), STRICT);
        assert_eq!(found.is_some(), expected.is_some(), "{sql}: {found:?}");
        assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{sql}");
    }
}
