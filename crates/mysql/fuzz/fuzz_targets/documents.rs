//! See `calve_mysql::fuzzing::documents`.
#![no_main]

use calve_mysql::fuzzing::documents;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| documents(data));
