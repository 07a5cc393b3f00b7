//! `soak [COMMITS [STEP]]`: what a table looks like after so many commits (20,000 by default), with a line every STEP.
//! `integration/commits.sh` builds what it needs.

use std::process::ExitCode;

use calve_integration::soak;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (commits, step) = match (arguments.next().unwrap_or(Ok(20_000)), arguments.next().unwrap_or(Ok(1_000))) {
        (Ok(commits), Ok(step)) if step > 0 => (commits, step),
        _ => {
            eprintln!("usage: soak [COMMITS [STEP]]");
            return ExitCode::from(2);
        }
    };
    match soak::run(commits, step) {
        Ok(samples) => {
            println!("RESULT commits={} samples={}", samples.last().map_or(0, |sample| sample.commits), samples.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}
