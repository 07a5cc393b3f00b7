//! See `calve_mysql::fuzzing::rows`.
#![no_main]

use calve_mysql::fuzzing::{rows, rows_mutated};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| rows(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    rows_mutated(data, size, max_size, seed, &mut |data, size, limit| fuzzer_mutate(data, size, limit))
});
