//! See `calve_mysql::fuzzing::positions`.
#![no_main]

use calve_mysql::fuzzing::positions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| positions(data));
