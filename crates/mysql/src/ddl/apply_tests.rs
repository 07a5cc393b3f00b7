use calve_core::{
    ColumnPattern, ColumnRules, ColumnSelection, ColumnType, Evolution, OnUnrepresentable, SchemaChange, TableRules,
    TableSchema,
};

use super::tests::table;
use super::*;
use crate::conversions::Conversions;
use crate::types::{self, CatalogType, attribute};

pub(super) const STRICT: Session<'_> =
    Session { flavour: Flavour::MySql, tinyint1_as_boolean: false, rules: None, strict: true, copy_of: None };

/// `d.t` with the key `id` and these columns, of a table of utf8mb4.
pub(super) fn schema(flavour: Flavour, columns: &str) -> TableSchema {
    let ty = CatalogType { data_type: "int".into(), column_type: "int".into(), ..CatalogType::default() };
    let id = types::column(
        flavour,
        &Conversions::default(),
        &TableRules::default(),
        "id",
        &ty,
        &[attribute::NOT_NULL],
        true,
    )
    .unwrap();
    let columns_so_far = vec![calve_core::Column { id: 1, ..id }];
    let character_set = Some("utf8mb4".to_owned());
    let key = TableSchema { character_set, ..TableSchema::new(table("d.t"), 0, columns_so_far, vec![0]) };
    let sql = format!("ALTER TABLE t ADD ({columns})");
    let change = altered(&key, &sql, Session { flavour, ..STRICT }).unwrap_or_else(|error| panic!("{sql}: {error}"));
    TableSchema::clone(&change.expect("columns were added").schema)
}

fn altered(schema: &TableSchema, sql: &str, session: Session) -> Result<Option<SchemaChange>, String> {
    let flavour = session.flavour;
    let statement = Statement { flavour, default_db: "d", sql, sql_mode: 0, lower_case_table_names: 0 };
    let effects = effects_of(&statement, &[table("d.t")]);
    let [DdlEffect::Altered { alteration, .. }] = effects.as_slice() else { panic!("{sql}: {effects:?}") };
    alteration.apply(schema, session)
}

/// `number name type` of each column, `!` where NULL may not appear.
pub(super) fn shown(schema: &TableSchema) -> String {
    let column = |column: &calve_core::Column| {
        let set = column.native.character_set.as_deref().filter(|set| *set != "utf8mb4");
        let set = set.map(|set| format!(" {set}")).unwrap_or_default();
        format!("{} {} {}{set}{}", column.id, column.name, column.native.name, if column.nullable { "" } else { "!" })
    };
    let columns: Vec<String> = schema.columns.iter().map(column).collect();
    let key: Vec<&str> = schema.key_columns().map(|column| column.name.as_str()).collect();
    format!("{} key {}", columns.join(", "), key.join(", "))
}

/// What a rule may make NULL may be NULL, whichever way the column comes to the name that the rule is for.
#[test]
fn rules_follow_the_name() {
    let before = schema(Flavour::MySql, "a TIME NOT NULL, c TIME NOT NULL");
    let rule = ColumnRules { on_unrepresentable: Some(OnUnrepresentable::Null), ..ColumnRules::default() };
    let rules = TableRules { columns: [("b".to_owned(), rule)].into(), ..TableRules::default() };
    let session = Session { rules: Some(&rules), ..STRICT };
    for (clauses, expected) in [
        ("RENAME COLUMN a TO b", "1 id int!, 2 b time, 3 c time! key id"),
        ("CHANGE a b TIME NOT NULL", "1 id int!, 2 b time, 3 c time! key id"),
        ("RENAME COLUMN a TO z", "1 id int!, 2 z time!, 3 c time! key id"),
    ] {
        let change = altered(&before, &format!("ALTER TABLE t {clauses}"), session).unwrap().unwrap();
        assert_eq!(shown(&change.schema), expected, "{clauses}");
    }
}

#[test]
fn what_is_added_stays_out_where_that_is_asked_for() {
    let before = schema(Flavour::MySql, "a INT");
    let rules = TableRules { leaves_out_added: true, ..TableRules::default() };
    let session = Session { rules: Some(&rules), ..STRICT };
    let change = altered(&before, "ALTER TABLE t ADD b INT NOT NULL DEFAULT 7, ADD c POINT FIRST", session);
    let SchemaChange { schema: after, existing_rows } = change.unwrap().unwrap();
    let kept = |schema: &TableSchema| -> Vec<String> {
        schema.kept().columns.iter().map(|column| column.name.clone()).collect()
    };
    assert_eq!((kept(&after), existing_rows), (vec!["id".to_owned(), "a".to_owned()], None));
    // Under another name and type too; and columns that the lake has stay in it.
    let change = altered(&after, "ALTER TABLE t CHANGE b other TEXT, RENAME COLUMN a TO z", session).unwrap().unwrap();
    assert_eq!((kept(&change.schema), change.existing_rows), (vec!["id".to_owned(), "z".to_owned()], None));
    assert_eq!(after.evolution(&change.schema), Evolution::Kept);
}

#[test]
fn columns_come_go_and_move_as_the_statement_says() {
    let before = schema(Flavour::MySql, "a INT, b VARCHAR(10), c ENUM('x','y') NOT NULL");
    assert_eq!(shown(&before), "1 id int!, 2 a int, 3 b varchar(10), 4 c enum('x','y')! key id");
    for (clauses, expected) in [
        ("ADD d INT", "1 id int!, 2 a int, 3 b varchar(10), 4 c enum('x','y')!, 5 d int key id"),
        ("ADD d INT AFTER A", "1 id int!, 2 a int, 5 d int, 3 b varchar(10), 4 c enum('x','y')! key id"),
        (
            "ADD d INT FIRST, ADD e INT",
            "5 d int, 1 id int!, 2 a int, 3 b varchar(10), 4 c enum('x','y')!, 6 e int key id",
        ),
        (
            "ADD d INT AFTER id, ADD e INT AFTER d",
            "1 id int!, 5 d int, 6 e int, 2 a int, 3 b varchar(10), 4 c enum('x','y')! key id",
        ),
        // A number is never given twice, not even that of a column that goes.
        ("DROP c, ADD c INT", "1 id int!, 2 a int, 3 b varchar(10), 5 c int key id"),
        ("DROP COLUMN a, DROP `b`", "1 id int!, 4 c enum('x','y')! key id"),
        (
            "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            "1 id int!, 2 b int, 3 a varchar(10), 4 c enum('x','y')! key id",
        ),
        ("CHANGE a aa BIGINT", "1 id int!, 2 aa bigint, 3 b varchar(10), 4 c enum('x','y')! key id"),
        (
            "CHANGE a aa INT AFTER c, ADD d INT AFTER aa",
            "1 id int!, 3 b varchar(10), 4 c enum('x','y')!, 2 aa int, 5 d int key id",
        ),
        ("MODIFY c ENUM('x','y','z') FIRST", "4 c enum('x','y','z'), 1 id int!, 2 a int, 3 b varchar(10) key id"),
        ("MODIFY id BIGINT", "1 id bigint!, 2 a int, 3 b varchar(10), 4 c enum('x','y')! key id"),
        (
            "ADD d TEXT, CHARSET latin1",
            "1 id int!, 2 a int, 3 b varchar(10), 4 c enum('x','y')!, 5 d text latin1 key id",
        ),
        (
            "DROP PRIMARY KEY, ADD PRIMARY KEY (c, b(3))",
            "1 id int!, 2 a int, 3 b varchar(10), 4 c enum('x','y')! key c, b",
        ),
        (
            "MODIFY b VARCHAR(20), ADD INDEX (b), COMMENT 'x'",
            "1 id int!, 2 a int, 3 b varchar(20), 4 c enum('x','y')! key id",
        ),
    ] {
        let sql = format!("ALTER TABLE t {clauses}");
        let change = altered(&before, &sql, STRICT).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(shown(&change.unwrap_or_else(|| panic!("{sql}")).schema), expected, "{sql}");
    }
    for clauses in ["ADD IF NOT EXISTS a TEXT", "DROP IF EXISTS z", "MODIFY a INT", "ADD INDEX (a)", "CHARSET utf8mb4"]
    {
        let sql = format!("ALTER TABLE t {clauses}");
        let session = Session { flavour: Flavour::MariaDb, ..STRICT };
        let before = schema(Flavour::MariaDb, "a INT, b VARCHAR(10)");
        assert_eq!(altered(&before, &sql, session), Ok(None), "{sql}");
    }
}

#[test]
fn what_rows_that_are_there_get_is_said() {
    let columns =
        "a INT, b VARCHAR(10), c ENUM('x','y'), d DATETIME(3), e DECIMAL(8,2), f TEXT CHARACTER SET latin1, g CHAR(3)";
    let before = schema(Flavour::MySql, columns);
    for (clauses, strict, says) in [
        ("ADD z INT", true, None),
        ("ADD z INT DEFAULT NULL", true, None),
        ("ADD z INT DEFAULT 7", true, Some("\"z\" was added with a default")),
        ("ADD z INT NOT NULL", true, Some("\"z\" was added as NOT NULL")),
        ("ADD z TIMESTAMP", true, Some("the time of the change")),
        ("ADD z TIMESTAMP NULL", true, None),
        ("ADD z INT AS (a + 1) STORED", true, Some("\"z\" is computed")),
        ("ADD z INT AUTO_INCREMENT UNIQUE", true, Some("\"z\" numbers rows")),
        ("MODIFY a BIGINT", true, None),
        ("MODIFY a SMALLINT", true, Some("from int to smallint")),
        ("MODIFY a INT UNSIGNED", true, Some("from int to int unsigned")),
        ("MODIFY a INT NOT NULL", true, None),
        ("MODIFY a INT NOT NULL", false, Some("\"a\" became NOT NULL")),
        ("MODIFY a INT AUTO_INCREMENT UNIQUE", true, Some("became AUTO_INCREMENT")),
        ("MODIFY b VARCHAR(11)", true, None),
        ("MODIFY b VARCHAR(9)", true, Some("from varchar(10) of utf8mb4 to varchar(9)")),
        ("MODIFY b TEXT", true, None),
        ("MODIFY b TINYTEXT", false, None),
        ("MODIFY b VARCHAR(10) CHARACTER SET latin1", true, Some("to varchar(10) of latin1")),
        ("MODIFY c ENUM('x','y','z')", true, None),
        ("MODIFY c ENUM('y','x')", true, Some("from enum('x','y')")),
        ("MODIFY c ENUM('x')", true, Some("from enum('x','y')")),
        ("MODIFY d DATETIME(6)", true, None),
        ("MODIFY d DATETIME", true, Some("from datetime(3) to datetime")),
        ("MODIFY d DATE", true, Some("from datetime(3) to date")),
        ("MODIFY e DECIMAL(10,2)", true, None),
        ("MODIFY e DECIMAL(10,4)", true, Some("from decimal(8,2)")),
        ("MODIFY e DECIMAL(7,2)", true, Some("from decimal(8,2)")),
        ("MODIFY f TEXT CHARACTER SET utf8mb4", true, None),
        ("MODIFY f TEXT CHARACTER SET utf8mb4", false, Some("from text of latin1")),
        ("MODIFY f MEDIUMTEXT CHARACTER SET utf8mb4", false, None),
        ("CONVERT TO CHARACTER SET latin1", true, Some("from varchar(10) of utf8mb4")),
        ("MODIFY g VARCHAR(3)", true, None),
        ("MODIFY b CHAR(10)", true, Some("from varchar(10)")),
        ("RENAME COLUMN a TO z, DROP b", true, None),
        ("DEFAULT CHARACTER SET latin1", true, None),
    ] {
        let sql = format!("ALTER TABLE t {clauses}");
        let change =
            altered(&before, &sql, Session { strict, ..STRICT }).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let said = change.unwrap_or_else(|| panic!("{sql} changes nothing")).existing_rows;
        match says {
            None => assert_eq!(said, None, "{sql}"),
            Some(says) => assert!(said.as_ref().is_some_and(|said| said.contains(says)), "{sql}: {said:?}"),
        }
    }
    // A column that is kept as text shows what its type does to it.
    let mut printed = before.clone();
    printed.columns.iter_mut().for_each(|column| column.ty = ColumnType::String);
    for (clauses, kept) in [
        ("MODIFY a BIGINT", true),
        ("MODIFY d DATETIME(6)", false),
        ("MODIFY a INT ZEROFILL", false),
        ("MODIFY e DECIMAL(10,2)", true),
    ] {
        let sql = format!("ALTER TABLE t {clauses}");
        let change = altered(&printed, &sql, STRICT).unwrap().unwrap();
        // The statement alone gives columns back the types that belong to theirs.
        let as_text = |column: &calve_core::Column| calve_core::Column { ty: ColumnType::String, ..column.clone() };
        let mut pairs = printed.columns.iter().zip(&change.schema.columns);
        let loss = pairs.find_map(|(before, after)| conversion::loss(before, &as_text(after), true));
        assert_eq!(loss.is_none(), kept, "{sql}: {loss:?}");
    }
    let ignoring = altered(&before, "ALTER IGNORE TABLE t MODIFY a INT NOT NULL", STRICT).unwrap().unwrap();
    assert!(ignoring.existing_rows.is_some(), "{ignoring:?}");
}

#[test]
fn what_cannot_be_judged_is_not_guessed() {
    let before = schema(Flavour::MySql, "a INT, b VARCHAR(10)");
    for (clauses, says) in [
        ("ADD z FROBNICATED", "ADD z FROBNICATED"),
        ("ADD z INT FROBNICATED", "FROBNICATED"),
        ("ADD z VECTOR(3, 4)", "vector(3,4)"),
        ("ADD z ENUM(x'41')", "ADD z ENUM"),
        ("ADD z VARCHAR(10) CHARACTER SET klingon", "the character set klingon"),
        ("ADD z VARCHAR(20000)", "varchar(20000)"),
        ("ADD a INT", "column a is there already"),
        ("ADD z INT AFTER nope", "column nope is none"),
        ("DROP nope", "column nope is none"),
        ("MODIFY a INT, DROP a", "column a is changed twice"),
        ("CHANGE nope z INT", "column nope is none"),
        ("DROP PRIMARY KEY", "without a primary key"),
        ("DROP id", "without a primary key"),
        ("ADD PRIMARY KEY (a)", "a primary key already"),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (nope)", "key column nope"),
        ("CONVERT TO CHARACTER SET DEFAULT", "TO CHARACTER SET DEFAULT"),
        ("CONVERT TO CHARACTER SET latin1, ADD z TEXT", "at once"),
        ("ADD z ENUM('é') CHARACTER SET latin1, CONVERT TO CHARACTER SET utf8mb4", "at once"),
        ("ADD SYSTEM VERSIONING", "ADD SYSTEM VERSIONING"),
        ("ENGINE = MyISAM", "ENGINE = MyISAM"),
        ("ADD (z INT, PRIMARY KEY (z))", "PRIMARY KEY"),
    ] {
        let sql = format!("ALTER TABLE t {clauses}");
        let error = altered(&before, &sql, STRICT).expect_err(&sql);
        assert!(error.contains(says), "{sql}: {error}");
    }
    let labelled = schema(Flavour::MySql, "c ENUM('é') CHARACTER SET latin1");
    let error = altered(&labelled, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", STRICT).unwrap_err();
    assert!(error.contains("column c of type enum('é') in another character set"), "{error}");
    let mut unknown = before.clone();
    unknown.character_set = None;
    let error = altered(&unknown, "ALTER TABLE t ADD z TEXT", STRICT).unwrap_err();
    assert!(error.contains("which character set"), "{error}");
    assert!(altered(&unknown, "ALTER TABLE t ADD z TEXT CHARACTER SET latin1, ADD y INT", STRICT).is_ok());
    unknown.columns[1].id = 0;
    assert!(altered(&unknown, "ALTER TABLE t ADD y INT", STRICT).is_err());
    assert_eq!(altered(&unknown, "ALTER TABLE t ADD INDEX (a)", STRICT), Ok(None));
}

#[test]
fn a_key_of_other_columns_is_another_key() {
    let before = schema(Flavour::MySql, "a INT NOT NULL");
    for (clauses, kept) in [
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (id)", None),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (a)", Some(false)),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)", Some(false)),
        ("CHANGE id number BIGINT", Some(false)),
        ("RENAME COLUMN id TO number", Some(true)),
    ] {
        let change = altered(&before, &format!("ALTER TABLE t {clauses}"), STRICT).unwrap();
        assert_eq!(change.map(|change| before.evolution(&change.schema) == Evolution::Kept), kept, "{clauses}");
    }
}

/// What the lake does not get may become anything; under another name another rule holds.
#[test]
fn what_is_left_out_may_become_anything() {
    let rules = TableRules {
        selection: ColumnSelection::Without(vec![ColumnPattern::new("secret*")]),
        ..TableRules::default()
    };
    let session = Session { rules: Some(&rules), ..STRICT };
    let before = rules.applied(schema(Flavour::MySql, "secret VARCHAR(9), a INT, b TEXT"));
    for (clauses, kept, changes) in [
        ("DROP COLUMN secret", "id a b", false),
        ("MODIFY secret INT NOT NULL AFTER a", "id a b", false),
        ("ADD secret2 INT NOT NULL DEFAULT 5 FIRST", "id a b", false),
        ("CHANGE secret secret3 DATETIME NOT NULL", "id a b", false),
        ("CONVERT TO CHARACTER SET latin1", "id a b", true),
        ("RENAME COLUMN secret TO open", "id open a b", true),
        ("RENAME COLUMN a TO secret4", "id b", false),
        ("CHANGE a secret4 BIGINT NOT NULL", "id b", false),
        ("RENAME COLUMN id TO secret_id", "secret_id a b", false),
    ] {
        let change = altered(&before, &format!("ALTER TABLE t {clauses}"), session).unwrap().unwrap();
        let names: Vec<String> = change.schema.kept().columns.iter().map(|column| column.name.clone()).collect();
        assert_eq!(names.join(" "), kept, "{clauses}");
        let again = change.existing_rows.is_some() || before.evolution(&change.schema) != Evolution::Kept;
        assert_eq!(again, changes, "{clauses}");
    }
}
