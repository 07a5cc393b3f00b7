//! The engine through every fault: exhaustively over the steps of the scenarios, in sampled pairs, at random over seeds, and
//! with each rule of the protocol switched off, which must be noticed.
//!
//! `CALVE_SIMULATION='<spec>' cargo test -p calve-testkit --test simulation rerun` runs one spec and shows its trace;
//! `CALVE_SIMULATION_SEEDS=N` runs N random seeds instead of 300.

use calve_engine::Mutation;
use calve_testkit::sim::{
    Fault, Keep, MUTATIONS, Plan, Random, Scenario, Spec, StepKind, expect_holds, report, run, scenarios,
};

fn spec(scenario: &str, seed: u64) -> Spec {
    Spec { scenario: scenario.to_owned(), seed, ..Spec::default() }
}

/// Every step of the scenario struck by every fault that can strike it, and a crash at every step with local state gone or
/// old afterwards.
fn exhaustive(scenario: &Scenario) -> Vec<Spec> {
    let base = spec(scenario.name, 0);
    let steps = run(&base, Keep { steps: true, trace: false }).steps;
    let mut specs = Vec::new();
    for (number, step) in (1_u64..).zip(&steps) {
        let faults = step.kind.faults().iter().chain(&scenario.extra);
        let plans = faults.map(|fault| Plan::one(number, *fault));
        let sleds = [Fault::SledLost, Fault::SledStale(1), Fault::SledStale(2)];
        let crashes = sleds.into_iter().map(|sled| Plan::one(number, sled).and(number, Fault::CrashAfter));
        specs.extend(plans.chain(crashes).map(|plan| Spec { plan, ..base.clone() }));
    }
    specs
}

/// Two faults, or a fault and something beside it, at any two steps.
fn pairs(scenario: &Scenario, count: usize) -> impl Iterator<Item = Spec> {
    const FAULTS: [Fault; 12] = [
        Fault::Fail,
        Fault::LoseAnswer,
        Fault::Delay(4),
        Fault::Delay(25),
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::PowerAfter,
        Fault::SledLost,
        Fault::SledStale(2),
        Fault::Compact(0),
        Fault::Join,
        Fault::Join,
    ];
    let base = spec(scenario.name, 0);
    let steps = run(&base, Keep::default()).taken;
    let mut random = Random::new(steps);
    std::iter::repeat_with(move || {
        let mut draw = || (1 + random.below(steps), FAULTS[random.index(FAULTS.len())]);
        let ((first, one), (second, other)) = (draw(), draw());
        Spec { plan: Plan::one(first, one).and(second, other), ..base.clone() }
    })
    .take(count)
}

#[test]
fn without_faults_every_scenario_holds() {
    for scenario in scenarios() {
        expect_holds(&spec(scenario.name, 0));
    }
    expect_holds(&spec("long-load", 0));
    expect_holds(&spec("large-load", 0));
}

#[test]
fn every_step_survives_every_fault() {
    for scenario in scenarios() {
        exhaustive(&scenario).iter().for_each(expect_holds);
    }
}

#[test]
fn pairs_of_faults_are_survived() {
    for scenario in scenarios() {
        pairs(&scenario, 250).for_each(|spec| expect_holds(&spec));
    }
}

/// The answer to a commit is lost, and until it is known what became of it somebody moves the table back.
#[test]
fn what_came_after_a_commit_without_an_answer_counts() {
    let base = spec("roll-back", 0);
    let steps = run(&base, Keep { steps: true, trace: false }).steps;
    for (number, _) in (1_u64..).zip(&steps).filter(|(_, step)| step.kind == StepKind::Commit) {
        for (lost, until) in [(Fault::LoseAnswer, 4), (Fault::Delay(2), 8)] {
            for later in 1..until {
                let plan = Plan::one(number, lost).and(number + later, Fault::RollBack(0));
                expect_holds(&Spec { plan, ..base.clone() });
            }
        }
    }
}

/// A commit of a process that died lands while the next one finishes what was intended.
#[test]
fn a_commit_that_lands_late_says_what_is_in_the_lake() {
    for scenario in scenarios() {
        let base = spec(scenario.name, 0);
        let steps = run(&base, Keep { steps: true, trace: false }).steps;
        for (number, _) in (1_u64..).zip(&steps).filter(|(_, step)| step.kind == StepKind::Commit) {
            for (dies, lands) in (1..3).flat_map(|dies| [6, 9, 12, 40].map(|lands| (dies, dies + lands))) {
                let plan = Plan::one(number, Fault::Delay(lands)).and(number + dies, Fault::CrashBefore);
                expect_holds(&Spec { plan, ..base.clone() });
            }
        }
    }
}

#[test]
fn random_histories_are_survived() {
    let seeds = std::env::var("CALVE_SIMULATION_SEEDS").ok();
    let seeds = seeds.map_or(300, |text| text.parse().expect("CALVE_SIMULATION_SEEDS is a number"));
    for seed in 0..seeds {
        expect_holds(&spec("random", seed));
    }
}

#[test]
fn the_same_spec_takes_the_same_steps() {
    let keep = Keep { steps: true, trace: true };
    let late = Spec { plan: Plan::one(40, Fault::CrashAfter), ..spec("keys", 0) };
    for spec in (0..20).map(|seed| spec("random", seed)).chain([late]) {
        let first = run(&spec, keep);
        // Elsewhere: on a thread that has run nothing before.
        let again = std::thread::scope(|scope| scope.spawn(|| run(&spec, keep)).join());
        let again = again.expect("the second run ended");
        assert!(first.trace.len() > 50, "{spec} did next to nothing: {:?}", first.trace);
        for (first, again) in first.trace.iter().zip(&again.trace) {
            assert_eq!(first, again, "{spec}");
        }
        assert_eq!(first.trace.len(), again.trace.len(), "{spec}");
    }
}

/// Some run notices that the rule is off: in the scenario named, or else in any other, or else at random.
fn is_noticed(mutation: Mutation, scenario: &str) {
    let all = scenarios();
    let (named, others): (Vec<_>, Vec<_>) = all.iter().partition(|s| s.name == scenario);
    let long = std::iter::once(spec("long-load", 0)).filter(|spec| spec.scenario == scenario);
    let specs = long
        .chain(named.iter().flat_map(|s| exhaustive(s).into_iter().chain(pairs(s, 1000))))
        .chain((0..1000).map(|seed| spec("random", seed)))
        .chain(others.iter().flat_map(|s| exhaustive(s)));
    let mut runs = 0;
    for spec in specs {
        runs += 1;
        let broken = Spec { without: Some(mutation), ..spec.clone() };
        let Some(violation) = run(&broken, Keep::default()).violation else { continue };
        // What breaks with the rule as well says nothing about it.
        if run(&spec, Keep::default()).violation.is_none() {
            println!("{mutation:?} is noticed by run {runs}: {broken}\n   {violation}");
            return;
        }
    }
    panic!("nothing in {runs} runs notices {mutation:?}");
}

macro_rules! mutations {
    ($($name:ident: $mutation:ident by $scenario:literal,)*) => {
        $(
            #[test]
            fn $name() {
                is_noticed(Mutation::$mutation, $scenario);
            }
        )*

        #[test]
        fn every_mutation_has_its_test() {
            let tested = [$(Mutation::$mutation),*];
            for mutation in MUTATIONS {
                assert!(tested.contains(&mutation), "{mutation:?} is not tested");
            }
        }
    };
}

mutations! {
    a_missing_stamp_is_noticed: NoStamp by "core",
    a_missing_skip_is_noticed: SkipOff by "core",
    an_early_acknowledgement_is_noticed: AckEarly by "core",
    resuming_from_the_smallest_position_is_noticed: ResumeSmallest by "purged",
    resuming_from_the_greatest_position_is_noticed: ResumeGreatest by "uneven",
    a_counter_for_an_id_is_noticed: CounterId by "zombie",
    deleting_at_the_start_is_noticed: DeleteAtStart by "zombie",
    position_taken_for_done_is_noticed: PositionMeansDone by "zombie",
    position_taken_for_foreign_is_noticed: PositionMeansForeign by "core",
    completeness_of_ones_own_end_is_noticed: CompleteIsOwnEnd by "core",
    an_unchecked_base_is_noticed: BaseUnchecked by "zombie",
    an_unchecked_intent_is_noticed: IntentUnchecked by "zombie",
    an_intent_for_all_tables_is_noticed: IntentForAll by "added",
    running_before_catching_up_is_noticed: UnstopFirst by "stop",
    acknowledging_idle_traffic_is_noticed: IdleAny by "idle",
    changes_lost_during_a_load_are_noticed: KeptLost by "added",
    completeness_beyond_a_load_is_noticed: PassLoad by "added",
    completeness_beyond_kept_changes_is_noticed: PassKept by "long-load",
    an_unsettled_load_is_noticed: UnsettledLoad by "drift",
    an_old_schema_is_noticed: OldSchema by "alter",
    trusted_inserts_of_an_unsettled_load_are_noticed: TrustedInserts by "drift",
    looking_up_what_is_being_committed_is_noticed: LookUpAhead by "kept",
    looking_up_below_staged_chunks_is_noticed: LookUpBelow by "kept-large",
    a_log_that_is_folded_is_noticed: FoldedLog by "log",
    a_table_that_does_not_say_how_far_it_is_is_noticed: Unstamped by "netted",
    deleted_rows_that_a_truncate_takes_are_noticed: TruncateForgets by "deleted",
    changes_numbered_from_the_beginning_again_are_noticed: NumbersAgain by "log",
    rows_that_leave_the_choice_and_stay_are_noticed: LeaversStay by "chosen",
}

#[test]
fn rerun() {
    let Ok(text) = std::env::var("CALVE_SIMULATION") else { return };
    let spec: Spec = text.parse().unwrap_or_else(|error| panic!("CALVE_SIMULATION='{text}': {error}"));
    let outcome = run(&spec, Keep { trace: true, steps: false });
    println!("{}", report(&spec, &outcome));
    assert_eq!(outcome.violation, None);
}
