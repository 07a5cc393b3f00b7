//! See `calve_mysql::fuzzing::framing`.
#![no_main]

use calve_mysql::fuzzing::{framing, framing_mutated};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| framing(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    framing_mutated(data, size, max_size, seed, &mut |data, size, limit| fuzzer_mutate(data, size, limit))
});
