//! The engine through every fault: exhaustively over the scenarios' steps, at random over seeds, and with each rule of the
//! protocol switched off.
//!
//! `CALVE_SIMULATION='<spec>'` runs one spec with its trace (test `rerun`); `CALVE_SIMULATION_SEEDS=N` runs more seeds.

use calve_testkit::sim::{Keep, Spec, expect_holds, report, run, scenarios};

fn spec(scenario: &str, seed: u64) -> Spec {
    Spec { scenario: scenario.to_owned(), seed, ..Spec::default() }
}

#[test]
fn without_faults_every_scenario_holds() {
    for scenario in scenarios() {
        expect_holds(&spec(scenario.name, 0));
    }
}

#[test]
fn rerun() {
    let Ok(text) = std::env::var("CALVE_SIMULATION") else { return };
    let spec: Spec = text.parse().unwrap_or_else(|error| panic!("CALVE_SIMULATION='{text}': {error}"));
    let outcome = run(&spec, Keep { trace: true, steps: false });
    println!("{}", report(&spec, &outcome));
    assert!(outcome.violation.is_none(), "{}", outcome.violation.unwrap_or_default());
}
