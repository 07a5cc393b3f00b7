//! calve.
fn main() {}
