//! What names a run, and what comes out of it.

use std::fmt;
use std::str::FromStr;

use calve_engine::Mutation;

use super::faults::Plan;
use super::run::run;
use super::world::Step;

/// Every rule that can be switched off.
pub const MUTATIONS: [Mutation; 28] = [
    Mutation::NoStamp,
    Mutation::SkipOff,
    Mutation::AckEarly,
    Mutation::ResumeSmallest,
    Mutation::ResumeGreatest,
    Mutation::CounterId,
    Mutation::DeleteAtStart,
    Mutation::PositionMeansDone,
    Mutation::PositionMeansForeign,
    Mutation::CompleteIsOwnEnd,
    Mutation::BaseUnchecked,
    Mutation::IntentUnchecked,
    Mutation::IntentForAll,
    Mutation::UnstopFirst,
    Mutation::IdleAny,
    Mutation::KeptLost,
    Mutation::PassLoad,
    Mutation::PassKept,
    Mutation::UnsettledLoad,
    Mutation::OldSchema,
    Mutation::TrustedInserts,
    Mutation::LookUpAhead,
    Mutation::LookUpBelow,
    Mutation::FoldedLog,
    Mutation::TruncateForgets,
    Mutation::Unstamped,
    Mutation::NumbersAgain,
    Mutation::LeaversStay,
];

/// One run: which scenario, under which seed and faults, with which rule switched off.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// The scenario's name.
    pub scenario: String,
    /// Decides everything that is random.
    pub seed: u64,
    /// The faults planned.
    pub plan: Plan,
    /// A rule that is switched off.
    pub without: Option<Mutation>,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} seed={}", self.scenario, self.seed)?;
        if !self.plan.0.is_empty() {
            write!(f, " plan={}", self.plan)?;
        }
        if let Some(mutation) = self.without {
            write!(f, " without={mutation:?}")?;
        }
        Ok(())
    }
}

impl FromStr for Spec {
    type Err = String;

    /// As it is shown, without the mutation: that one is named by its test.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let mut parts = text.split_whitespace();
        let mut spec = Self { scenario: parts.next().unwrap_or_default().to_owned(), ..Self::default() };
        for part in parts {
            match part.split_once('=') {
                Some(("seed", seed)) => spec.seed = seed.parse().map_err(|_| format!("'{seed}' is no seed"))?,
                Some(("plan", plan)) => spec.plan = plan.parse()?,
                Some(("without", name)) => {
                    let known = MUTATIONS.iter().find(|mutation| format!("{mutation:?}") == name);
                    spec.without = Some(*known.ok_or_else(|| format!("'{name}' is no mutation"))?);
                }
                _ => return Err(format!("'{part}' is not seed=, plan= or without=")),
            }
        }
        Ok(spec)
    }
}

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The first invariant broken.
    pub violation: Option<String>,
    /// Every step taken, if asked for.
    pub steps: Vec<Step>,
    /// What happened, if asked for.
    pub trace: Vec<String>,
    /// How many steps were taken.
    pub taken: u64,
}

/// What a run should keep.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// [`Outcome::steps`].
    pub steps: bool,
    /// [`Outcome::trace`].
    pub trace: bool,
}

/// Runs it, and panics with everything needed to understand a violation.
///
/// # Panics
/// When an invariant was broken.
pub fn expect_holds(spec: &Spec) {
    if run(spec, Keep::default()).violation.is_some() {
        let again = run(spec, Keep { trace: true, steps: false });
        panic!("{}", report(spec, &again));
    }
}

/// A violation with its trace and how to see it again.
pub fn report(spec: &Spec, outcome: &Outcome) -> String {
    let violation = outcome.violation.as_deref().unwrap_or("nothing was violated");
    format!(
        "{violation}\n\nTo run it again: CALVE_SIMULATION='{spec}' cargo test -p calve-testkit --test simulation rerun\n\n{}",
        outcome.trace.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_reads_back_as_it_is_shown() {
        for text in ["core seed=0", "zombie seed=3 plan=4:join,9:lose-answer without=PositionMeansDone"] {
            assert_eq!(text.parse::<Spec>().map(|spec| spec.to_string()), Ok(text.to_owned()));
        }
        assert!("core speed=3".parse::<Spec>().is_err() && "core without=Everything".parse::<Spec>().is_err());
    }
}
