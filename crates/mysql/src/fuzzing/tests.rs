//! A little of the fuzzing, in every run of the tests: the inputs to begin with as they are, then changed.

use super::mutator::Random;
use super::*;

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

/// As the servers wrote them.
#[test]
fn transactions_are_pushed_as_the_sink_is_promised() {
    check("transactions", transactions, transactions_mutated, 0);
}
