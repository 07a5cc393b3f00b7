//! Runs random migrations: see `migrate::options` for the command line, `integration/migrate-soak.sh` for how to build what
//! it needs.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use calve_integration::migrate::{self, Options};

fn main() -> ExitCode {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let options = match Options::parse(std::env::args().skip(1), clock) {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match migrate::run(&options) {
        Ok(report) => {
            for failure in &report.failures {
                println!("FAILED: {failure}");
            }
            let failures = match report.failures.len() {
                0 => String::new(),
                count => format!(" failures={count}"),
            };
            println!("kills: {}, tables read again by hand: {}", report.kills, report.reloads);
            println!("RESULT ddl={} rows={} mismatches={}{failures}", report.ddl, report.rows, report.mismatches);
            if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("migrate: the campaign could not go on: {error:#}");
            ExitCode::from(2)
        }
    }
}
