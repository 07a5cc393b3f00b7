use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use calve_core::{Column, ColumnType, Lsn, NativeType, StagedDelta, TableIntent, TableName, TableSchema};
use uuid::Uuid;

use super::*;

/// A directory of its own for each test, gone at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("calve-positions-{test}-{}-{unique}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn dir(&self) -> PathBuf {
        self.0.join("positions")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// xorshift64*, so that a failing case can be named by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % bound
    }
}

fn lsn(n: u64) -> Position {
    Position::Postgres(Lsn(n))
}

fn set(count: usize) -> MemberDigest {
    MemberDigest::of(tables(count).iter().map(|table| (table, CheckpointId(Uuid::nil()))))
}

fn tables(n: usize) -> Vec<TableName> {
    (0..n).map(|i| TableName::new("public", format!("table_{i}"))).collect()
}

fn intent(n: u64, files: usize) -> CheckpointIntent {
    let table = TableName::new("public", "orders");
    let key = Column {
        id: 0,
        name: "id".to_owned(),
        ty: ColumnType::Long,
        nullable: false,
        native: NativeType::new(20, -1, "bigint"),
        usage: calve_core::ColumnUse::Values,
    };
    let schema = TableSchema::new(table.clone(), 16_400, vec![key], vec![0]);
    let delta = StagedDelta {
        replace: false,
        reshapes: false,
        rows: n,
        deletes: 1,
        nulled: 3,
        clamped: 4,
        changes: 0,
        bytes: 4096,
        files: (0..files).map(|i| format!("/lake/warehouse/public/orders/data/p-{n}-{i}-data.parquet")).collect(),
        body: serde_json::json!({ "manifests": ["a", n] }),
    };
    CheckpointIntent {
        id: CheckpointId(Uuid::from_u128(u128::from(n))),
        start: lsn(n * 10),
        end: lsn(n * 10 + 10),
        tables: vec![TableIntent {
            table,
            base: CheckpointId(Uuid::from_u128(7)),
            low: lsn(n * 10),
            high: lsn(n * 10 + 10),
            schema: Arc::new(schema),
            deltas: vec![delta],
        }],
        covers: tables(2),
    }
}

fn kept(scratch: &Scratch) -> usize {
    let names = fs::read_dir(&scratch.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".damaged-")).count()
}

#[test]
fn what_was_saved_is_there_after_a_restart() {
    let scratch = Scratch::new("restart");
    let positions = Positions::open(scratch.dir(), "shop").unwrap();
    assert_eq!(positions.load().unwrap(), SavedState::default());
    let (first, second, third) = (intent(1, 1), intent(2, 1), intent(3, 20_000));
    for intent in [&first, &second, &third] {
        positions.put_intent(intent).unwrap();
    }
    positions.advance(&first.id, &lsn(20), set(2)).unwrap();
    drop(positions);

    let positions = Positions::open(scratch.dir(), "shop").unwrap();
    let expected = SavedState { position: Some((lsn(20), set(2))), intents: vec![second.clone(), third] };
    assert_eq!(positions.load().unwrap(), expected);
    let changed = CheckpointIntent { end: lsn(99), ..second };
    positions.put_intent(&changed).unwrap();
    drop(positions);

    let positions = Positions::open(scratch.dir(), "shop").unwrap();
    assert_eq!(positions.load().unwrap().intents.first(), Some(&changed));
    positions.drop_intents().unwrap();
    drop(positions);

    let state = Positions::open(scratch.dir(), "shop").unwrap().load().unwrap();
    assert_eq!(state, SavedState { position: Some((lsn(20), set(2))), intents: Vec::new() });
    assert_eq!(kept(&scratch), 0);
}

#[test]
fn a_position_never_goes_back_for_the_same_tables() {
    let scratch = Scratch::new("back");
    let positions = Positions::open(scratch.dir(), "shop").unwrap();
    let none = CheckpointId(Uuid::from_u128(0));
    for (position, members, expected) in
        [(20, set(2), (20, set(2))), (10, set(2), (20, set(2))), (15, set(3), (15, set(3))), (25, set(3), (25, set(3)))]
    {
        positions.advance(&none, &lsn(position), members).unwrap();
        assert_eq!(positions.load().unwrap().position, Some((lsn(expected.0), expected.1)), "after {position}");
    }
}

/// What was saved of a log that is gone must not stand in the way of what is read of the next, which may begin anew.
#[test]
fn tables_read_again_begin_where_their_new_log_is() {
    let scratch = Scratch::new("again");
    let loaded = |by| MemberDigest::of(tables(2).iter().map(|table| (table, CheckpointId(Uuid::from_u128(by)))));
    let at = |text: &str| text.parse::<Position>().unwrap();
    let none = CheckpointId(Uuid::from_u128(0));
    let reset = "mysql:3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3@b.000001:400";
    let long = "mysql:3e11fa47-71ca-11e1-9e33-c80aa9429562:1-90@b.000007:400";
    for (position, members) in [
        (long, loaded(1)),
        (reset, loaded(2)),
        ("binlog:b.000001:4;created=2", loaded(3)),
        ("binlog:b.000001:300;created=2", loaded(3)),
    ] {
        let positions = Positions::open(scratch.dir(), "shop").unwrap();
        positions.advance(&none, &at(position), members).unwrap();
        assert_eq!(positions.load().unwrap().position, Some((at(position), members)));
        drop(positions);
        let positions = Positions::open(scratch.dir(), "shop").unwrap();
        assert_eq!(positions.load().unwrap().position, Some((at(position), members)), "after a restart");
    }
}

#[test]
fn a_second_process_is_refused() {
    let scratch = Scratch::new("second");
    let first = Positions::open(scratch.dir(), "shop").unwrap();
    let error = Positions::open(scratch.dir(), "shop").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let expected = format!("the pipeline is already running (process {})", std::process::id());
    assert!(error.to_string().starts_with(&expected), "{error}");
    drop(first);
    Positions::open(scratch.dir(), "shop").unwrap();
}

#[test]
fn another_pipelines_state_is_refused_and_left_alone() {
    let scratch = Scratch::new("other");
    Positions::open(scratch.dir(), "shop").unwrap().put_intent(&intent(1, 1)).unwrap();
    let error = Positions::open(scratch.dir(), "billing").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("belong to pipeline 'shop', not to 'billing'"), "{error}");
    assert_eq!(Positions::open(scratch.dir(), "shop").unwrap().load().unwrap().intents.len(), 1);
}

/// Writes some states and returns all that a reader may find: each of them, and none.
fn history(dir: &Path) -> Vec<SavedState> {
    let positions = Positions::open(dir, "shop").unwrap();
    let mut states = vec![positions.load().unwrap()];
    for n in 1..=6 {
        positions.put_intent(&intent(n, 3)).unwrap();
        states.push(positions.load().unwrap());
        if n > 2 {
            positions.advance(&intent(n - 2, 3).id, &lsn(n * 10), set(2)).unwrap();
            states.push(positions.load().unwrap());
        }
    }
    states
}

/// Every file of the directory, with its bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    entries.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// Puts the files in a fresh directory, opens it, and has it hold a state of the history and go on.
fn check_damaged(history: &[SavedState], files: &[(&Path, &[u8])], what: &str) -> bool {
    let scratch = Scratch::new("damaged");
    fs::create_dir_all(scratch.dir().join("blobs")).unwrap();
    for (path, bytes) in files {
        fs::write(scratch.dir().join(path.file_name().unwrap()), bytes).unwrap();
    }
    let positions = Positions::open(scratch.dir(), "shop").unwrap_or_else(|error| panic!("{what}: {error}"));
    let state = positions.load().unwrap();
    assert!(history.contains(&state), "{what}: found a state that was never saved: {state:?}");
    let added = intent(77, 2);
    positions.put_intent(&added).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(positions);
    let positions = Positions::open(scratch.dir(), "shop").unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(positions.load().unwrap().intents.last(), Some(&added), "{what}");
    kept(&scratch) > 0
}

#[test]
fn a_store_cut_short_anywhere_opens() {
    let scratch = Scratch::new("cut");
    let history = history(&scratch.dir());
    let files = files(&scratch.dir());
    assert!(files.len() >= 2, "{files:?}");
    let mut rebuilt = 0;
    for (cut, bytes) in &files {
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        // Every length would take minutes: a prime step meets all kinds of places, and the small files are done whole.
        for len in (0..=written).step_by((written / 60).max(1)).chain([bytes.len().saturating_sub(1)]) {
            let damaged: Vec<(&Path, &[u8])> = files
                .iter()
                .map(|(path, bytes)| (path.as_path(), if path == cut { &bytes[..len] } else { bytes.as_slice() }))
                .collect();
            rebuilt += usize::from(check_damaged(&history, &damaged, &format!("{} cut to {len}", cut.display())));
        }
    }
    assert!(rebuilt > 0, "no cut was noticed as damage");
}

#[test]
fn a_store_with_flipped_bytes_opens() {
    let scratch = Scratch::new("flip");
    let history = history(&scratch.dir());
    let files = files(&scratch.dir());
    for seed in 1..=150 {
        let mut random = Random(seed);
        let mut damaged = files.clone();
        let chosen = random.below(damaged.len());
        let (_, bytes) = &mut damaged[chosen];
        let written: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i] != 0).collect();
        for _ in 0..=random.below(3) {
            let place = written[random.below(written.len())];
            bytes[place] ^= u8::try_from(1 + random.below(255)).unwrap();
        }
        let damaged: Vec<(&Path, &[u8])> = damaged.iter().map(|(p, b)| (p.as_path(), b.as_slice())).collect();
        check_damaged(&history, &damaged, &format!("seed {seed}"));
    }
}

#[test]
fn what_is_no_store_is_moved_aside() {
    let scratch = Scratch::new("foreign");
    fs::write(scratch.dir(), "a file in the way").unwrap();
    drop(Positions::open(scratch.dir(), "shop").unwrap());
    assert_eq!(kept(&scratch), 1);
    for round in 2..6 {
        fs::write(scratch.dir().join("conf"), "not a configuration of sled").unwrap();
        drop(Positions::open(scratch.dir(), "shop").unwrap());
        assert_eq!(kept(&scratch), round.min(3), "only the newest are kept");
    }
}

#[test]
fn damage_in_the_middle_of_a_run_loses_nothing() {
    let scratch = Scratch::new("middle");
    let positions = Positions::open(scratch.dir(), "shop").unwrap();
    positions.put_intent(&intent(1, 1)).unwrap();
    fs::remove_dir_all(scratch.dir()).unwrap();
    positions.put_intent(&intent(2, 1)).unwrap();
    let state = positions.load().unwrap();
    assert_eq!(state.intents.len(), 2);
    drop(positions);
    assert_eq!(Positions::open(scratch.dir(), "shop").unwrap().load().unwrap(), state);
}

#[test]
fn the_directory_does_not_grow_for_ever() {
    let scratch = Scratch::new("grow");
    let positions = Positions::open(scratch.dir(), "shop").unwrap();
    positions.inner().rewrite_bytes = 4 << 20;
    let standing = intent(1_000_000, 10);
    positions.put_intent(&standing).unwrap();
    for n in 0..150 {
        positions.put_intent(&intent(n, 2_000)).unwrap();
        positions.advance(&intent(n, 1).id, &lsn(n), set(2)).unwrap();
    }
    let sizes = files(&scratch.dir()).iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    assert!(sizes < 8 << 20, "{sizes} bytes for one intent and a position");
    drop(positions);
    let state = Positions::open(scratch.dir(), "shop").unwrap().load().unwrap();
    assert_eq!(state, SavedState { position: Some((lsn(149), set(2))), intents: vec![standing] });
}

#[test]
fn a_rewrite_cut_off_goes_back_to_the_old_directory() {
    let scratch = Scratch::new("rewrite");
    Positions::open(scratch.dir(), "shop").unwrap().put_intent(&intent(1, 1)).unwrap();
    directory::begin_rewrite(&scratch.dir()).unwrap();
    // As after a kill between the two: the new directory is there and still empty.
    drop(ContainedStore::open(&scratch.dir(), "shop").unwrap());
    assert_eq!(Positions::open(scratch.dir(), "shop").unwrap().load().unwrap().intents, vec![intent(1, 1)]);
}

const CHILD: &str = "CALVE_POSITIONS_TEST_CHILD";

/// Not a test of its own: the process that [`a_kill_loses_nothing_that_was_reported`] kills.
#[test]
fn child_that_is_killed() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let positions = Positions::open(&dir, "shop").unwrap();
    let first = match positions.load().unwrap().position {
        Some((Position::Postgres(Lsn(n)), _)) => n,
        _ => 0,
    };
    let mut out = std::io::stdout();
    for n in first + 1.. {
        positions.put_intent(&intent(n, 5)).unwrap();
        writeln!(out, "intent {n}").unwrap();
        positions.advance(&intent(n, 5).id, &lsn(n), set(2)).unwrap();
        writeln!(out, "done {n}").unwrap();
    }
}

#[test]
fn a_kill_loses_nothing_that_was_reported() {
    let scratch = Scratch::new("kill");
    let mut random = Random(42);
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::child_that_is_killed", "--nocapture"])
            .env(CHILD, scratch.dir())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..5 + random.below(40) {
            lines.next().unwrap().unwrap();
        }
        child.kill().unwrap();
        // What the child could still say before it died.
        let reported: Vec<String> = lines.map_while(std::result::Result::ok).collect();
        // Opened at once, while the dead process may still hold the lock.
        let positions = Positions::open(scratch.dir(), "shop").unwrap();
        child.wait().unwrap();
        let state = positions.load().unwrap();
        let Some((Position::Postgres(Lsn(done)), _)) = state.position else { panic!("round {round}: nothing saved") };
        let number = |line: &String, what: &str| line.strip_prefix(what).and_then(|n| n.parse::<u64>().ok());
        if let Some(last) = reported.iter().rev().find_map(|line| number(line, "done ")) {
            assert!(done >= last, "round {round}: {last} was reported and {done} is saved");
        }
        if let Some(last) = reported.iter().rev().find_map(|line| number(line, "intent ")) {
            assert!(done >= last || state.intents == vec![intent(last, 5)], "round {round}: {last}, {state:?}");
        }
        assert!(state.intents.len() <= 1, "round {round}: {state:?}");
        assert_eq!(kept(&scratch), 0, "round {round}: a kill is no damage");
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn a_death_at_a_failpoint_leaves_what_was_saved_before_it() {
    for (place, done, open) in [
        ("positions.intent-written", None, vec![1]),
        ("positions.intent-written:3", Some(2), vec![3]),
        ("positions.advanced:2", Some(2), vec![]),
    ] {
        let scratch = Scratch::new("failpoint");
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::child_that_is_killed", "--nocapture"])
            .env(CHILD, scratch.dir())
            .env("CALVE_FAILPOINT", place)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success(), "{place} was passed");
        let state = Positions::open(scratch.dir(), "shop").unwrap().load().unwrap();
        assert_eq!(state.position, done.map(|n| (lsn(n), set(2))), "{place}");
        assert_eq!(state.intents, open.into_iter().map(|n| intent(n, 5)).collect::<Vec<_>>(), "{place}");
    }
}
