//! What can go wrong, and when: a plan names faults by the number of the protocol step they strike.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Something that goes wrong at a protocol step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The request never arrives: an error, no effect. For the stream: the connection is lost.
    Fail,
    /// It takes effect, the answer is lost: an error.
    LoseAnswer,
    /// A commit's caller gets an error; the request lands this many steps later, if its version still fits then.
    Delay(u64),
    /// The process dies before the effect.
    CrashBefore,
    /// The process dies after the effect, before it knows.
    CrashAfter,
    /// The power goes before the effect: every process dies, unsynced writes vanish.
    PowerBefore,
    /// The power goes between the effect and its fsync.
    PowerAfter,
    /// The next start finds no local state.
    SledLost,
    /// The next start finds local state as it was this many writes ago.
    SledStale(u64),
    /// A second process starts; it takes the slot.
    Join,
    /// A foreign writer compacts the table of this index.
    Compact(usize),
    /// Somebody moves the main branch of the table of this index back.
    RollBack(usize),
}

/// What a step is, which decides the faults that can strike it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Reads something.
    Read,
    /// Takes a part of the stream, or of a load.
    Receive,
    /// Changes something outside and waits for the answer.
    Write,
    /// A catalog commit.
    Commit,
    /// Tells the source what it may forget; nobody waits.
    Acknowledge,
}

impl StepKind {
    /// The faults that make a difference on such a step.
    pub fn faults(self) -> &'static [Fault] {
        use Fault::{CrashAfter, CrashBefore, Delay, Fail, LoseAnswer, PowerAfter, PowerBefore};
        match self {
            Self::Read | Self::Receive => &[Fail, CrashBefore],
            Self::Write => &[Fail, LoseAnswer, CrashBefore, CrashAfter, PowerBefore, PowerAfter],
            Self::Commit => &[Fail, LoseAnswer, Delay(3), Delay(12), Delay(40), CrashBefore, CrashAfter, PowerBefore],
            Self::Acknowledge => &[Fail, CrashBefore, CrashAfter],
        }
    }
}

/// The faults of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(pub BTreeMap<u64, Vec<Fault>>);

impl Plan {
    /// One fault at one step.
    pub fn one(step: u64, fault: Fault) -> Self {
        Self([(step, vec![fault])].into())
    }

    /// Adds a fault.
    #[must_use]
    pub fn and(mut self, step: u64, fault: Fault) -> Self {
        self.0.entry(step).or_default().push(fault);
        self
    }

    /// The last step that a fault is planned for.
    pub fn last_step(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(step, _)| *step)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail => f.write_str("fail"),
            Self::LoseAnswer => f.write_str("lose-answer"),
            Self::Delay(steps) => write!(f, "delay-{steps}"),
            Self::CrashBefore => f.write_str("crash-before"),
            Self::CrashAfter => f.write_str("crash-after"),
            Self::PowerBefore => f.write_str("power-before"),
            Self::PowerAfter => f.write_str("power-after"),
            Self::SledLost => f.write_str("sled-lost"),
            Self::SledStale(writes) => write!(f, "sled-stale-{writes}"),
            Self::Join => f.write_str("join"),
            Self::Compact(table) => write!(f, "compact-{table}"),
            Self::RollBack(table) => write!(f, "roll-back-{table}"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = [
            Self::Fail,
            Self::LoseAnswer,
            Self::CrashBefore,
            Self::CrashAfter,
            Self::PowerBefore,
            Self::PowerAfter,
            Self::SledLost,
            Self::Join,
        ];
        if let Some(fault) = plain.into_iter().find(|fault| fault.to_string() == text) {
            return Ok(fault);
        }
        let error = || format!("'{text}' is no fault");
        let (name, number) = text.rsplit_once('-').ok_or_else(error)?;
        let number: u64 = number.parse().map_err(|_| error())?;
        let table = usize::try_from(number).map_err(|_| error())?;
        match name {
            "delay" => Ok(Self::Delay(number)),
            "sled-stale" => Ok(Self::SledStale(number)),
            "compact" => Ok(Self::Compact(table)),
            "roll-back" => Ok(Self::RollBack(table)),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.0.iter().flat_map(|(step, faults)| faults.iter().map(move |fault| (step, fault)));
        for (index, (step, fault)) in faults.enumerate() {
            write!(f, "{}{step}:{fault}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut plan = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (step, fault) = part.split_once(':').ok_or_else(|| format!("'{part}' is not step:fault"))?;
            plan = plan.and(step.parse().map_err(|_| format!("'{step}' is no step"))?, fault.parse()?);
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reads_back_as_it_is_shown() {
        let text = "3:delay-12,7:sled-lost,7:crash-after,9:roll-back-1,12:sled-stale-2,14:join";
        let plan: Plan = text.parse().unwrap();
        assert_eq!(plan.to_string(), text);
        assert_eq!(plan.last_step(), 14);
        assert!("3:explode".parse::<Plan>().is_err() && "explode".parse::<Plan>().is_err());
    }
}
