//! See `calve_mysql::fuzzing::statements`.
#![no_main]

use calve_mysql::fuzzing::statements;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| statements(data));
