//! Runs the crash suite: see `crash::options` for its command line, `integration/crash.sh` for how to build what it needs.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use calve_integration::crash::{self, Options};

fn main() -> ExitCode {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let options = match Options::parse(std::env::args().skip(1), clock) {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match crash::run(&options) {
        Ok(report) => {
            for failure in &report.failures {
                println!("FAILED: {failure}");
            }
            let failures = match report.failures.len() {
                0 => String::new(),
                count => format!(" failures={count}"),
            };
            println!(
                "RESULT rounds={} kills={} lost={} duplicated={}{failures}",
                report.rounds, report.kills, report.lost, report.duplicated
            );
            if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("crash: the suite could not go on: {error:#}");
            ExitCode::from(2)
        }
    }
}
