//! Measures calve beside its limits: see `bench::options` for the command line, `integration/bench.sh` for how to build
//! what it needs, and `integration/README.md` for what the scenarios are.

use std::process::ExitCode;

use calve_integration::bench::{self, Options};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match bench::run(&options) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
