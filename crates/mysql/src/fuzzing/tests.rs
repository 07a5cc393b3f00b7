//! A little of the fuzzing, in every run of the tests: the inputs to begin with as they are, then changed.

use super::mutator::Random;
use super::*;
use crate::binlog::event::{Header, kind};
use crate::fuzzing::input::put_event;

type Target = fn(&[u8]);
type Mutated = fn(&mut [u8], usize, usize, u32, &mut dyn FnMut(&mut [u8], usize, usize) -> usize) -> usize;

/// Changes of a few bytes, as libFuzzer makes them.
fn blindly(random: &mut Random, data: &mut [u8], size: usize, limit: usize) -> usize {
    let at = random.below(size);
    let Some(byte) = data.get_mut(at).filter(|_| size > 0) else { return size };
    match random.below(8) {
        0 => *byte = 0xff,
        1 => *byte = 0,
        2 => *byte = byte.wrapping_add(1),
        3 => *byte ^= 1 << random.below(8),
        4 => return at,
        5 if size < limit => {
            data.copy_within(at..size, at + 1);
            return size + 1;
        }
        6 => {
            data.copy_within(at + 1..size, at);
            return size - 1;
        }
        _ => {
            let to = random.below(size);
            let length = random.below(size - at.max(to)).min(16);
            data.copy_within(at..at + length, to);
        }
    }
    size
}

fn plain(
    data: &mut [u8],
    size: usize,
    limit: usize,
    _: u32,
    blind: &mut dyn FnMut(&mut [u8], usize, usize) -> usize,
) -> usize {
    blind(data, size, limit)
}

/// A failure prints its input; `fuzz` has room for it.
fn check(name: &str, target: Target, mutated: Mutated, cases: usize) {
    let inputs: Vec<Vec<u8>> = seeds().into_iter().filter(|seed| seed.target == name).map(|seed| seed.bytes).collect();
    assert!(inputs.len() > 5, "{name} has {} inputs to begin with", inputs.len());
    let run = |input: &[u8]| {
        let failed = std::panic::catch_unwind(|| target(input)).is_err();
        assert!(!failed, "{name} fails with {}", input.escape_ascii());
    };
    inputs.iter().step_by(inputs.len().div_ceil(1000)).for_each(|input| run(input));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for case in 0..cases {
        let mut data = inputs[random.below(inputs.len())].clone();
        let mut size = data.len();
        data.resize(size + 64, 0);
        let limit = data.len();
        for _ in 0..=random.below(3) {
            let seed = u32::try_from(case).unwrap() ^ u32::try_from(random.below(1 << 30)).unwrap();
            size =
                mutated(&mut data, size, limit, seed, &mut |data, size, limit| blindly(&mut random, data, size, limit));
        }
        run(&data[..size]);
    }
}

#[test]
fn events_are_taken_apart_or_refused() {
    check("framing", framing, framing_mutated, 30_000);
}

#[test]
fn rows_are_decoded_or_refused() {
    check("rows", rows, rows_mutated, 10_000);
}

#[test]
fn documents_are_printed_or_refused() {
    check("documents", documents, plain, 30_000);
}

#[test]
fn positions_read_back_and_are_a_lattice() {
    check("positions", positions, plain, 10_000);
}

#[test]
fn statements_are_read_whatever_they_say() {
    check("statements", statements, plain, 20_000);
}

#[test]
fn transactions_are_pushed_as_the_sink_is_promised() {
    check("transactions", transactions, transactions_mutated, 5_000);
}

fn statement(sql: &str, out: &mut Vec<u8>) {
    let body = [&[0; 8][..], &[3, 0, 0, 0, 0], b"cap\0", sql.as_bytes()].concat();
    put(kind::QUERY, &body, out);
}

fn put(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    put_event(Header { timestamp: 1, kind, server_id: 1, size: 0, log_pos: 0, flags: 0 }, body, out);
}

/// A table that is followed in the capture of this number.
fn a_table(capture: usize) -> String {
    super::captured::captures()[capture].tables[0].schema.table.name.clone()
}

/// A statement in a distributed transaction stops its table. The sink must not be left in it when it is prepared.
#[test]
fn a_transaction_that_stops_a_table_ends_with_its_prepare() {
    let capture = super::captured::captures().iter().position(|c| c.flavour == crate::binlog::Flavour::MySql).unwrap();
    let [low, high, ..] = capture.to_le_bytes();
    let mut input = vec![0, 0, low, high, 0, 8];
    put(kind::GTID, &[&[0][..], &[7; 16], &1_u64.to_le_bytes()].concat(), &mut input);
    statement("XA START X'61',X'',1", &mut input);
    statement(&format!("INSERT INTO {} VALUES (1)", a_table(capture)), &mut input);
    statement("XA END X'61',X'',1", &mut input);
    put(
        kind::XA_PREPARE,
        &[&[0][..], &1_u32.to_le_bytes(), &1_u32.to_le_bytes(), &0_u32.to_le_bytes(), b"a"].concat(),
        &mut input,
    );
    put(kind::STOP, &[], &mut input);
    transactions(&input);
}

/// What is refused at its end only is known to be open, so that the sink is told to go back.
#[test]
fn a_transaction_refused_at_its_end_is_taken_back() {
    let mut input = vec![1, 1, 0, 0, 0, 8];
    for number in [5_u64, 4] {
        put(kind::MARIA_GTID, &[&number.to_le_bytes()[..], &[0; 4], &[4], &[0; 6]].concat(), &mut input);
        statement(&format!("INSERT INTO {} VALUES (1)", a_table(0)), &mut input);
        put(kind::XID, &[0; 8], &mut input);
    }
    transactions(&input);
}
