use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// A directory of a test's own, removed afterwards.
struct TestDir(PathBuf);

impl TestDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("calve-spools-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(spool: usize, number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((spool * 31 + number * 7 + at) % 251).unwrap()).collect()
}

fn assert_read(spool: Spool, expected: &[Vec<u8>]) {
    let (mut records, mut record) = (spool.read(), Vec::new());
    for (number, expected) in expected.iter().enumerate() {
        assert!(records.next(&mut record).unwrap(), "record {number} is missing");
        assert!(record == *expected, "record {number}: {} bytes, not the {} expected", record.len(), expected.len());
    }
    assert!(!records.next(&mut record).unwrap(), "there is more than was put in");
}

fn blocks_in_use(spools: &Spools) -> usize {
    let shared = spools.lock();
    shared.file.end() as usize - shared.file.free().len()
}

/// Spools filled in turns: everything in memory, everything on disk, records larger than blocks and than all the memory.
#[test]
fn records_come_back_in_order_from_memory_and_from_the_file() {
    let directory = TestDir::new("order");
    for (memory, lengths) in [
        (MEMORY_BYTES, [0, 10, 3_000]),
        (1, [0, 10, 3_000]),
        (200_000, [0, 10, 50_000]),
        (200_000, [BLOCK_BYTES - 4, BLOCK_BYTES, 3 * BLOCK_BYTES + 5]),
    ] {
        let spools = Spools::with_memory(directory.0.clone(), memory);
        let mut filled: Vec<(Spool, Vec<Vec<u8>>)> = (0..5).map(|_| (spools.spool(), Vec::new())).collect();
        for number in 0..60 {
            for (at, (spool, expected)) in filled.iter_mut().enumerate().filter(|(at, _)| number % (at + 1) == 0) {
                let record = record(at, number, lengths[number % 3]);
                let (head, tail) = record.split_at(record.len() / 3);
                spool.push(&[head, tail]).unwrap();
                assert!(spools.lock().in_memory <= memory, "{} bytes in memory", spools.lock().in_memory);
                expected.push(record);
            }
        }
        assert_eq!(blocks_in_use(&spools) > 0, memory < MEMORY_BYTES);
        for (spool, expected) in filled {
            assert_read(spool, &expected);
        }
        let shared = spools.lock();
        assert_eq!((shared.in_memory, shared.contents.len(), shared.file.end()), (0, 0, 0));
    }
    assert_eq!(directory.files(), 0, "files have no name");
}

#[test]
fn what_is_dropped_is_used_again_and_given_back() {
    let directory = TestDir::new("dropped");
    let spools = Spools::with_memory(directory.0.clone(), 0);
    let filled = |count| {
        let mut spool = spools.spool();
        for number in 0..count {
            spool.push(&[&record(0, number, BLOCK_BYTES - 4)]).unwrap();
        }
        spool
    };
    let (first, kept, last) = (filled(10), filled(1), filled(10));
    assert_eq!(blocks_in_use(&spools), 21);
    drop(last);
    assert_eq!(spools.lock().file.length().unwrap(), 11 * BLOCK_BYTES as u64, "the end of the file is cut off");
    drop(first);
    let again = filled(9);
    assert_eq!((blocks_in_use(&spools), spools.lock().file.end()), (10, 11), "free blocks are used first");
    // What is read no more is free as well.
    let mut records = again.read();
    assert!(records.next(&mut Vec::new()).unwrap());
    assert_eq!(blocks_in_use(&spools), 9);
    drop(records);
    assert_eq!(blocks_in_use(&spools), 1);
    assert_read(kept, &[record(0, 0, BLOCK_BYTES - 4)]);
    assert_eq!(spools.lock().file.length().unwrap(), 0);
}

#[test]
fn a_directory_that_is_of_no_use_is_an_error_and_none_where_memory_does() {
    let nowhere = Path::new("/nonexistent/spools");
    let mut spool = Spools::with_memory(nowhere.to_owned(), 100).spool();
    spool.push(&[&[1; 90]]).unwrap();
    assert_eq!(spool.push(&[&[1; 90]]).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_a_killed_process_left_is_swept() {
    let directory = TestDir::new("sweep");
    fs::write(directory.0.join("calve-spool-left"), "").unwrap();
    fs::write(directory.0.join("another"), "").unwrap();
    Spools::sweep(&directory.0);
    assert_eq!(
        fs::read_dir(&directory.0).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>(),
        ["another"]
    );
}
