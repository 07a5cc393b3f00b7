//! A look at tables after a step: what is wrong with them, by what was expected.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use calve_integration::pipeline::TableState;
use calve_integration::sql::Sql;

use super::expected::{Block, Outcome};
use super::run::Way;
use super::table::Name;
use crate::case::Case;

/// Some of what stops a table is looked for every few seconds only.
const STOPS_WITHIN: Duration = Duration::from_mins(1);

/// One look at many tables.
pub(super) struct Look<'a> {
    way: Way,
    case: &'a Case,
    reader: &'a mut Sql,
    states: BTreeMap<String, TableState>,
}

impl<'a> Look<'a> {
    pub(super) fn new(way: Way, case: &'a Case, reader: &'a mut Sql) -> anyhow::Result<Self> {
        Ok(Self { way, case, reader, states: case.pipeline.states()? })
    }

    /// What is wrong with a table after this step; once it was read again it is held to its source whatever the step was.
    pub(super) fn wrong(
        &mut self,
        name: &Name,
        block: &Block,
        step: usize,
        read_again: bool,
    ) -> anyhow::Result<Option<String>> {
        match &block.outcome {
            // Asked to be read again, it says why that cannot be.
            Outcome::Gone { step: at, .. } if *at <= step && read_again => self.not_stopped(name, ""),
            Outcome::Gone { step: at, says } | Outcome::Stops { step: at, says } if *at <= step && !read_again => {
                self.not_stopped(name, says)
            }
            Outcome::Unnoticed { step: at, .. } if *at <= step && !read_again => {
                let equal = name.differences(self.reader, self.case.lake())?.is_none();
                Ok(equal.then(|| "it equals its source, where that was held to be unnoticed".to_owned()))
            }
            _ => Ok(self.differs(name)),
        }
    }

    /// How a table differs from its source, or that it is stopped.
    fn differs(&mut self, name: &Name) -> Option<String> {
        let state = self.states.get(&name.shown());
        let what = match name.differences(self.reader, self.case.lake()) {
            Ok(None) if state.is_none_or(|state| state.state != "stopped") => return None,
            Ok(None) => "it is stopped".to_owned(),
            Ok(Some(differences)) => format!("it differs from its source:\n{differences}"),
            Err(error) => format!("it cannot be compared: {error:#}"),
        };
        Some(format!("{what}\n    its state is {state:?}"))
    }

    /// What is wrong with how a table stopped, or that it did not.
    fn not_stopped(&mut self, name: &Name, says: &str) -> anyhow::Result<Option<String>> {
        let until = Instant::now() + STOPS_WITHIN;
        loop {
            let state = self.states.get(&name.shown());
            if let Some(stopped) = state.filter(|state| state.state == "stopped") {
                let told = stopped.reason.contains(says);
                return Ok((!told).then(|| format!("it stopped, and did not say \"{says}\": {}", stopped.reason)));
            }
            if self.way == Way::Away || Instant::now() > until {
                return Ok(Some(format!("it does not stop: {state:?}")));
            }
            std::thread::sleep(Duration::from_millis(200));
            self.states = self.case.pipeline.states()?;
        }
    }
}
