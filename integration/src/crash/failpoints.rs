//! The named places at which the binary can be told to die, and which of them a campaign has been to.

use std::collections::BTreeMap;
use std::fmt;

use calve_testkit::servers::Kind as Source;

use super::options::Mutation;
use crate::random::Random;

/// Every failpoint of the binary, by name. A test holds this list against the code.
pub const ALL: &[&str] = &[
    "clean-up.after",
    "clean-up.before",
    "commit.manifests-written",
    "commit.metadata-written",
    "commit.swapped",
    "expire.before-delete",
    "lake.commit.after",
    "lake.commit.before",
    "lake.create.after",
    "lake.create.before",
    "lake.property_commit.after",
    "lake.property_commit.before",
    "load.commit.after",
    "load.commit.before",
    "load.file-written",
    "load.finish.after",
    "load.finish.before",
    "positions.advance.after",
    "positions.advance.before",
    "positions.advanced",
    "positions.intent-written",
    "positions.put_intent.after",
    "positions.put_intent.before",
    "source.acknowledge.after",
    "source.acknowledge.before",
    "source.follow.after",
    "source.follow.before",
    "source.keep_log.after",
    "source.keep_log.before",
    "source.start_load.after",
    "source.start_load.before",
    "writer.data-written",
    "writer.staged",
    "writer.write.after",
    "writer.write.before",
];

/// From this many rounds on a campaign must have been everywhere.
pub(super) const ROUNDS_FOR_ALL: u32 = 15;

/// Where and when a run of calve dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failpoint {
    pub(super) name: &'static str,
    /// Which passage of the place.
    pub(super) passage: u64,
}

/// What leads to a failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The load alone.
    Nothing,
    /// A table that is read again.
    Load,
    /// A pipeline that was never there before.
    FirstStart,
    /// Files of an earlier process that nothing refers to.
    StrayFiles,
}

impl Failpoint {
    /// Where files are written that no intent names yet.
    pub(super) const FILES_WRITTEN: Self = Self { name: "positions.put_intent.before", passage: 1 };

    /// What must happen for it to be reached.
    pub(super) fn needs(self) -> Need {
        match self.name {
            name if name.starts_with("lake.create") || name.starts_with("source.keep_log") => Need::FirstStart,
            name if name.starts_with("clean-up") => Need::StrayFiles,
            name if name.contains("load") => Need::Load,
            _ => Need::Nothing,
        }
    }

    /// As the binary's environment has it.
    pub(super) fn variable(self) -> String {
        format!("{}:{}", self.name, self.passage)
    }
}

/// How often each failpoint was hit and tried.
#[derive(Clone, Debug)]
pub(super) struct Coverage {
    hits: BTreeMap<&'static str, u64>,
    tries: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Of all failpoints that a source leads to; of those where the broken rule shows, where one is broken.
    pub(super) fn new(source: Source, mutation: Option<Mutation>) -> Self {
        // Only Postgres is asked to keep its log.
        let reached = |name: &&&str| source == Source::Postgres || !name.starts_with("source.keep_log");
        let telling = |name: &&&str| match mutation {
            None => true,
            Some(_) => ["commit.", "lake.commit.", "positions."].iter().any(|part| name.starts_with(part)),
        };
        let hits: BTreeMap<&'static str, u64> =
            ALL.iter().filter(reached).filter(telling).map(|name| (*name, 0)).collect();
        Self { tries: hits.clone(), hits }
    }

    /// The next one to try: one of those that were hit least, and of these one that was tried least.
    pub(super) fn next(&mut self, random: &mut Random) -> Failpoint {
        let rank = |name: &&'static str| (self.hits[*name].min(3), self.tries[*name]);
        let least = self.hits.keys().map(rank).min().expect("there are failpoints");
        let candidates: Vec<&'static str> = self.hits.keys().copied().filter(|name| rank(name) == least).collect();
        let name = *random.pick(&candidates);
        *self.tries.entry(name).or_default() += 1;
        // Most places are passed once a table or once a checkpoint; others once a process or a load.
        let often = ["commit.", "lake.commit.", "lake.create.", "positions.", "writer."];
        let passage = if often.iter().any(|part| name.starts_with(part)) { random.between(1, 6) } else { 1 };
        Failpoint { name, passage }
    }

    /// The binary died there.
    pub(super) fn hit(&mut self, failpoint: Failpoint) {
        *self.hits.entry(failpoint.name).or_default() += 1;
    }

    /// Those never hit.
    pub(super) fn missed(&self) -> Vec<&'static str> {
        self.hits.iter().filter(|(_, hits)| **hits == 0).map(|(name, _)| *name).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hit = self.hits.len() - self.missed().len();
        write!(f, "failpoints hit: {hit} of {}", self.hits.len())?;
        for (name, hits) in &self.hits {
            write!(f, "\n  {name}: {hits} hits in {} tries", self.tries[name])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Names in calls such as `failpoint::hit("commit.swapped")` in the sources below a directory.
    fn names_in(directory: &Path, into: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).expect("sources can be listed") {
            let path = entry.expect("sources can be listed").path();
            if path.is_dir() {
                names_in(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("sources can be read");
                for call in text.split("failpoint::hit(").skip(1) {
                    let name = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
                    into.insert(name.expect("a failpoint is named where it is hit").to_owned());
                }
            }
        }
    }

    #[test]
    fn the_list_is_that_of_the_code() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let mut found = BTreeSet::new();
        names_in(&crates, &mut found);
        let listed: BTreeSet<String> = ALL.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(found, listed);
    }

    #[test]
    fn the_least_visited_comes_next() {
        let mut random = Random::new(1);
        let mut coverage = Coverage::new(Source::Postgres, None);
        for _ in ALL {
            let next = coverage.next(&mut random);
            coverage.hit(next);
        }
        assert_eq!(coverage.missed(), Vec::<&str>::new());
    }
}
