use calve_core::{ColumnType, NativeType, RowBuffer, StopReason, TransactionPoint};
use calve_spool::Spools;

use super::*;
use crate::binlog::Flavour;
use crate::binlog::event::{Header, kind};
use crate::types::attribute;

/// Keeps the schemas that tables get, and why they stop.
#[derive(Default)]
struct Seen {
    begun: bool,
    schemas: Vec<Option<Arc<TableSchema>>>,
    stops: Vec<Option<StopReason>>,
}

impl ChangeSink for Seen {
    fn begin(&mut self, _: &TransactionPoint) {
        assert!(!std::mem::replace(&mut self.begun, true));
    }

    fn wants(&self, table: TableIndex) -> bool {
        assert!(self.begun);
        self.stops[table.0].is_none()
    }

    fn rows(&mut self, _: TableIndex) -> Option<&mut RowBuffer> {
        None
    }

    fn schema(&mut self, table: TableIndex, change: SchemaChange) {
        assert!(self.begun && change.existing_rows.is_none(), "{change:?}");
        self.schemas[table.0] = Some(change.schema);
    }

    fn stop(&mut self, table: TableIndex, reason: StopReason) {
        self.stops[table.0] = Some(reason);
    }

    fn commit(&mut self, _: calve_core::Position, _: i64) {
        assert!(std::mem::replace(&mut self.begun, false));
    }

    fn abort(&mut self) {
        self.begun = false;
    }

    fn idle(&mut self, _: calve_core::Position) {}

    fn is_full(&self) -> bool {
        false
    }
}

/// A log of MariaDB, a second after the other; reading begins anew before each statement.
struct Log {
    tables: Vec<SourceTable>,
    seen: Seen,
    end: u32,
    time: u32,
}

fn table(name: &str) -> SourceTable {
    let column = |id, name: &str, native: NativeType, ty| calve_core::Column {
        id,
        name: name.to_owned(),
        ty,
        nullable: id > 1,
        native,
        usage: calve_core::ColumnUse::Values,
    };
    let not_null = vec![attribute::NOT_NULL.to_owned()];
    let int = NativeType { attributes: not_null, ..NativeType::new(3, 0, "int(11)") };
    let text = NativeType { character_set: Some("utf8mb4".to_owned()), ..NativeType::new(15, 40, "varchar(10)") };
    let columns = vec![column(1, "id", int, ColumnType::Int), column(2, "v", text, ColumnType::String)];
    let name = TableName::new("d", name);
    let character_set = Some("utf8mb4".to_owned());
    let schema = TableSchema { character_set, ..TableSchema::new(name.clone(), 0, columns, vec![0]) };
    SourceTable { name, schema: Arc::new(schema) }
}

impl Log {
    fn of(names: &[&str]) -> Self {
        let tables: Vec<SourceTable> = names.iter().map(|name| table(name)).collect();
        let seen = Seen { schemas: vec![None; names.len()], stops: vec![None; names.len()], ..Seen::default() };
        Self { tables, seen, end: 4, time: 1000 }
    }

    /// One transaction, which is read by who knows what was saved before it.
    fn transaction(&mut self, events: &[(u8, Vec<u8>)], standalone: bool) {
        self.time += 1;
        let from = "mariadb:0-1-1".parse().unwrap();
        let spools = Spools::new(std::env::temp_dir());
        let mut reader = Transactions::new(Flavour::MariaDb, 0, &from, None, &self.tables, spools).unwrap();
        reader.enter("b.000001");
        let mut gtid = u64::from(self.time).to_le_bytes().to_vec();
        gtid.extend([0, 0, 0, 0, u8::from(standalone)]);
        gtid.resize(19, 0);
        for (kind, body) in std::iter::once(&(kind::MARIA_GTID, gtid)).chain(events) {
            let size = u32::try_from(Header::LENGTH + body.len()).unwrap();
            self.end += size;
            let header = Header { timestamp: self.time, kind: *kind, server_id: 1, size, log_pos: self.end, flags: 0 };
            reader.event(header, body, &mut self.seen).unwrap();
        }
        for (table, schema) in self.tables.iter_mut().zip(&self.seen.schemas) {
            table.schema = schema.clone().unwrap_or_else(|| Arc::clone(&table.schema));
        }
    }

    fn run(&mut self, sql: &str) {
        let mut body = vec![0; 8];
        body.extend([1, 0, 0, 0, 0]);
        body.extend(b"d\0");
        body.extend(sql.bytes());
        self.transaction(&[(kind::QUERY, body)], true);
    }

    /// A row of a table of one INT.
    fn row(&mut self, table: &str) {
        let mut map = vec![9, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, u8::try_from(table.len()).unwrap()];
        map.extend(table.bytes());
        map.extend([0, 1, 3, 0, 1]);
        let row = vec![9, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 5, 0, 0, 0];
        self.transaction(&[(kind::TABLE_MAP, map), (kind::WRITE_ROWS_V1, row), (kind::XID, vec![0; 8])], false);
    }

    fn run_all(&mut self, statements: &[&str]) {
        for sql in statements {
            match sql.strip_prefix("row of ") {
                Some(table) => self.row(table),
                None => self.run(sql),
            }
        }
    }

    fn why(&self, table: usize) -> String {
        self.seen.stops[table].as_ref().map(|reason| format!("{}: {}", reason.state, reason.detail)).unwrap_or_default()
    }
}

const WRITTEN: &str = "CREATE TABLE _t_new (id INT NOT NULL, v VARCHAR(10), PRIMARY KEY (id)) DEFAULT CHARSET=utf8mb4";
const INS: &str = "CREATE DEFINER=`r`@`%` TRIGGER `d`.`pt_osc_d_t_ins` AFTER INSERT ON `d`.`t` FOR EACH ROW REPLACE INTO `d`.`_t_new` (id) VALUES (NEW.id)";
const UPD: &str = "CREATE DEFINER=`r`@`%` TRIGGER `pt_osc_d_t_upd` AFTER UPDATE ON t FOR EACH ROW BEGIN DELETE IGNORE FROM _t_new WHERE id <=> OLD.id; REPLACE INTO _t_new (id) VALUES (NEW.id); END";
const DEL: &str =
    "CREATE TRIGGER pt_osc_d_t_del AFTER DELETE ON t FOR EACH ROW DELETE IGNORE FROM _t_new WHERE _t_new.id <=> OLD.id";
const RENAME: &str = "RENAME TABLE t TO _t_old, _t_new TO t";
const LIKE: &str = "CREATE TABLE _t_gho LIKE t";
const CUT_OVER: &str = "RENAME TABLE t TO _t_del, _t_gho TO t";

/// A copy is followed where the log shows the tool that fills it.
#[test]
fn a_copy_is_followed_by_the_traces_of_its_tool() {
    for (statements, why) in [
        (&[WRITTEN, DEL, UPD, INS, RENAME][..], ""),
        (&[WRITTEN, RENAME], "the triggers of pt-online-schema-change"),
        (&[WRITTEN, DEL, INS, RENAME], "the triggers of pt-online-schema-change"),
        (&[DEL, UPD, INS, WRITTEN, RENAME], "the triggers of pt-online-schema-change"),
        (&[WRITTEN, DEL, UPD, &INS.replace("pt_osc", "my"), RENAME], "the triggers of pt-online-schema-change"),
        (&[WRITTEN, DEL, UPD, &INS.replace("_t_new", "log"), RENAME], "the triggers of pt-online-schema-change"),
        (&[WRITTEN, DEL, UPD, &INS.replace("AFTER", "BEFORE"), RENAME], "the triggers of pt-online-schema-change"),
        (&[WRITTEN, DEL, UPD, INS, "DROP TRIGGER IF EXISTS `d`.`pt_osc_d_t_upd`", RENAME], "were dropped before"),
        (&[WRITTEN, DEL, UPD, INS, "DROP TRIGGER other", RENAME], ""),
        (&[WRITTEN, DEL, UPD, INS, RENAME, "DROP TRIGGER IF EXISTS `d`.`pt_osc_d_t_upd`"], ""),
        (
            &[WRITTEN, DEL, UPD, INS, &INS.replace("TRIGGER", "OR REPLACE TRIGGER").replace("_t_new", "log"), RENAME],
            "a trigger took the place",
        ),
        (
            &[
                WRITTEN,
                "CREATE DEFINER=`r`@`%` TRIGGER x BEFORE INSERT ON _t_new\nFOR EACH ROW SET NEW.v = 1",
                DEL,
                UPD,
                INS,
                RENAME,
            ],
            "a trigger was made on it",
        ),
        // The rows of gh-ost's changelog come once the copy is there.
        (&[LIKE, "row of _t_ghc", CUT_OVER], ""),
        (&[LIKE, CUT_OVER], "wrote nothing to a changelog"),
        (&["row of _t_ghc", LIKE, CUT_OVER], "wrote nothing to a changelog"),
        (&[LIKE, "row of _u_ghc", CUT_OVER], "wrote nothing to a changelog"),
        (&[LIKE, "row of _t_ghc", "DROP TABLE _t_gho", LIKE, CUT_OVER], "wrote nothing to a changelog"),
        (
            &[LIKE, "row of _t_ghc", "CREATE TRIGGER x AFTER INSERT ON _t_gho FOR EACH ROW SET @a = 1", CUT_OVER],
            "a trigger was made on it",
        ),
    ] {
        let mut log = Log::of(&["t"]);
        log.run_all(statements);
        let found = log.why(0);
        assert!(found.contains(why) && found.is_empty() == why.is_empty(), "{statements:?}: '{found}', not '{why}'");
        let followed = (log.tables[0].schema.shadow.is_none(), log.tables[0].schema.swaps);
        assert!(!why.is_empty() || followed == (true, 1), "{statements:?}: {followed:?}");
    }
}

/// What is done to it is done to that table, and who takes another table's name is anybody.
#[test]
fn a_copy_that_is_followed_itself_is_a_table() {
    for (statements, of_t, of_copy) in [
        (&[LIKE][..], "", "dropped and created again"),
        (&["DROP TABLE _t_gho"], "", "was dropped"),
        (&["RENAME TABLE _t_gho TO x"], "", "was renamed"),
        (&[CUT_OVER], "took its name", "was renamed"),
    ] {
        let mut log = Log::of(&["t", "_t_gho"]);
        // Known from when it was not followed.
        log.tables[0].schema = Arc::new(log.tables[0].schema.with_shadow(TableName::new("d", "_t_gho")));
        log.run("ALTER TABLE _t_gho ADD w INT");
        assert_eq!(log.tables[1].schema.columns.len(), 3);
        log.run_all(statements);
        assert!(
            log.why(0).contains(of_t) && log.why(0).is_empty() == of_t.is_empty(),
            "{statements:?}: {}",
            log.why(0)
        );
        assert!(log.why(1).contains(of_copy), "{statements:?}: {}", log.why(1));
    }
    let mut log = Log::of(&["t", "_t_gho"]);
    log.run_all(&["DROP TABLE _t_gho", LIKE]);
    assert_eq!(log.tables[0].schema.shadow, None);
}

/// gh-ost's two renames follow each other at once.
#[test]
fn a_table_does_not_wait_for_its_copy_without_end() {
    let begin = [LIKE, "row of _t_ghc", "RENAME TABLE t TO _t_2025_del"];
    let take = "ALTER TABLE _t_gho RENAME t";
    for (waits, why) in [(50, ""), (70, "dropped: the table was renamed, and its copy d._t_gho did not take its name")]
    {
        for rows in [true, false] {
            let mut log = Log::of(&["t"]);
            log.run_all(&begin);
            log.time += waits;
            if rows {
                log.row("others");
            } else {
                log.run("CREATE TABLE others (id INT)");
            }
            log.run(take);
            assert_eq!(log.why(0), why, "after {waits} s");
            assert_eq!(log.tables[0].schema.swaps, u32::from(why.is_empty()), "after {waits} s");
        }
    }
    // Only gh-ost does it so.
    let mut log = Log::of(&["t"]);
    log.run_all(&[WRITTEN, DEL, UPD, INS, "RENAME TABLE t TO _t_del"]);
    assert!(log.why(0).contains("dropped: the table was renamed to d._t_del"), "{}", log.why(0));
}

/// Where a unique index may be, it is known of the text columns, whoever makes it.
#[test]
fn a_unique_index_of_the_table_is_remembered() {
    for (sql, is) in [
        ("ALTER TABLE t ADD UNIQUE KEY (v)", true),
        ("CREATE UNIQUE INDEX u ON t (v(3))", true),
        ("ALTER TABLE t ADD w INT, ADD CONSTRAINT c UNIQUE (v)", true),
        ("ALTER TABLE t ADD (w INT, UNIQUE KEY (v))", true),
        ("ALTER TABLE t ADD w INT UNIQUE", true),
        ("ALTER TABLE t ADD KEY (v)", false),
        ("ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4", false),
    ] {
        let mut log = Log::of(&["t"]);
        log.run_all(&[sql, LIKE, "row of _t_ghc", "ALTER TABLE _t_gho MODIFY v VARCHAR(20)", CUT_OVER]);
        let (id, text) = (&log.tables[0].schema.columns[0].native, &log.tables[0].schema.columns[1].native);
        let said = |native: &NativeType| native.attributes.iter().any(|own| own == attribute::UNIQUE);
        assert_eq!((said(id), said(text)), (false, is), "{sql}");
        assert_eq!(log.why(0).contains("another collation"), is, "{sql}: {}", log.why(0));
        assert_eq!(log.why(0).is_empty(), !is, "{sql}: {}", log.why(0));
    }
    let mut log = Log::of(&["t"]);
    log.run_all(&[
        "ALTER TABLE t ADD UNIQUE KEY (v)",
        "ALTER TABLE t CHANGE v x VARCHAR(20)",
        "ALTER TABLE t RENAME COLUMN x TO y",
    ]);
    assert_eq!(log.tables[0].schema.columns[1].native.attributes, [attribute::UNIQUE]);
}
