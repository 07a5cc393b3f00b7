//! One round: calve is started and ended over and over while the load runs.

use std::time::{Duration, Instant};

use anyhow::bail;
use calve_testkit::servers::{Options as ServerOptions, Server, Stop};

use super::failpoints::{Coverage, Failpoint, Need};
use super::local_state::{LocalState, Mishap};
use super::options::Mutation;
use super::transactions::TABLES;
use crate::binary::{Finished, Running};
use crate::pipeline::Pipeline;
use crate::random::Random;

/// SIGABRT: how a failpoint ends the process.
const ABORTED: i32 = 6;

/// The exit code of a calve that could not reach its source when it started.
const UNREACHABLE: i32 = 6;

/// Longest life of a calve that is to die at a failpoint.
const FAILPOINT_WAIT: Duration = Duration::from_secs(5);

/// What a round works with.
pub(super) struct Round<'a> {
    pub(super) random: Random,
    pub(super) server: &'a Server,
    /// What the tables' names begin with.
    pub(super) namespace: &'a str,
    pub(super) pipeline: &'a Pipeline,
    pub(super) state: &'a mut LocalState,
    pub(super) coverage: &'a mut Coverage,
    pub(super) mutation: Option<Mutation>,
    /// What was done, in a word each.
    pub(super) deeds: Vec<String>,
    pub(super) kills: u32,
}

impl Round<'_> {
    /// Runs for about as long as told. An error is something that calve should not have done.
    pub(super) fn run(&mut self, length: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + length;
        while Instant::now() < until {
            self.one_life()?;
            self.between_lives()?;
        }
        Ok(())
    }

    /// Starts calve, lets it work, and ends it in one way or another.
    fn one_life(&mut self) -> anyhow::Result<()> {
        let failpoint = self.random.chance(60).then(|| self.coverage.next(&mut self.random));
        let need = failpoint.map(Failpoint::needs);
        match need {
            Some(Need::FirstStart) => self.begin_anew()?,
            Some(Need::StrayFiles) => self.leave_files()?,
            _ => {}
        }
        let mut command = self.pipeline.command(&["run"])?;
        if let Some(failpoint) = failpoint {
            command.env("CALVE_FAILPOINT", failpoint.variable());
        }
        let mut calve = Running::start(command, &self.pipeline.log("run"))?;
        let reload = match need {
            Some(need) => need == Need::Load,
            None => self.mutation.is_none() && self.random.chance(10),
        };
        let asking = if reload { Some(self.ask_reload(&mut calve)?) } else { None };
        let disturbed = self.mutation.is_none() && self.random.chance(12);
        if disturbed {
            self.pause(300, 1_000);
            self.restart_server()?;
        }
        if self.random.chance(15) {
            self.state.copy_aside()?;
        }
        let finished = match failpoint {
            Some(failpoint) => self.await_failpoint(calve, failpoint)?,
            None => self.await_chance(calve)?,
        };
        drop(asking);
        self.account(&finished, failpoint, disturbed)
    }

    /// Removes the pipeline with all its tables: the next start is its first.
    fn begin_anew(&mut self) -> anyhow::Result<()> {
        self.deeds.push("dropped".to_owned());
        self.pipeline.finish(&["drop", "--tables", "--yes"])?.expect_success()?;
        Ok(())
    }

    /// Has a process die with files written that nothing refers to.
    fn leave_files(&mut self) -> anyhow::Result<()> {
        let mut command = self.pipeline.command(&["run"])?;
        command.env("CALVE_FAILPOINT", Failpoint::FILES_WRITTEN.variable());
        let calve = Running::start(command, &self.pipeline.log("run"))?;
        let finished = self.await_failpoint(calve, Failpoint::FILES_WRITTEN)?;
        self.account(&finished, Some(Failpoint::FILES_WRITTEN), false)
    }

    /// Waits for the process to die by itself; it is killed where it does not get there.
    fn await_failpoint(&mut self, mut calve: Running, failpoint: Failpoint) -> anyhow::Result<Finished> {
        let until = Instant::now() + FAILPOINT_WAIT;
        while Instant::now() < until {
            if let Some(finished) = calve.ended()? {
                return Ok(finished);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.deeds.push(format!("missed {}", failpoint.variable()));
        calve.kill()
    }

    /// Kills the process at a random moment, or now and then asks it to leave.
    fn await_chance(&mut self, mut calve: Running) -> anyhow::Result<Finished> {
        self.pause(100, 2_000);
        if let Some(finished) = calve.ended()? {
            return Ok(finished);
        }
        // One that only just began is ended by the signal itself, as any process is.
        if self.random.chance(15) && calve.log().contains("streaming") {
            self.deeds.push("asked to leave".to_owned());
            return calve.terminate();
        }
        calve.kill()
    }

    /// Has a table read again, once calve listens. The answer is not waited for.
    fn ask_reload(&mut self, calve: &mut Running) -> anyhow::Result<Running> {
        let until = Instant::now() + FAILPOINT_WAIT;
        while !self.pipeline.listens() && Instant::now() < until {
            if calve.ended()?.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let (table, _) = *self.random.pick(&TABLES);
        self.deeds.push(format!("reload of {table}"));
        let command = self.pipeline.command(&["reload", &format!("{}.{table}", self.namespace)])?;
        Running::start(command, &self.pipeline.log("reload"))
    }

    fn restart_server(&mut self) -> anyhow::Result<()> {
        let how = *self.random.pick(&[Stop::Kill, Stop::Immediate, Stop::Fast]);
        self.deeds.push(format!("database restarted ({how:?})"));
        self.server.restart(how, &ServerOptions::default())?;
        Ok(())
    }

    /// What is known of a finished process.
    fn account(&mut self, finished: &Finished, failpoint: Option<Failpoint>, disturbed: bool) -> anyhow::Result<()> {
        match (finished.code, finished.signal, failpoint) {
            (None, Some(ABORTED), Some(failpoint)) => {
                self.coverage.hit(failpoint);
                self.deeds.push(format!("died at {}", failpoint.variable()));
                self.kills += 1;
            }
            (None, Some(9), _) => {
                self.deeds.push("killed".to_owned());
                self.kills += 1;
            }
            (Some(0), ..) if self.deeds.last().is_some_and(|deed| deed == "asked to leave") => {}
            (Some(UNREACHABLE), ..) if disturbed => self.deeds.push("source not reached".to_owned()),
            (code, signal, _) => {
                let said = finished.complaint().unwrap_or("nothing");
                bail!("calve left by itself (exit code {code:?}, signal {signal:?}): {said}")
            }
        }
        Ok(())
    }

    /// Local state may suffer while nobody holds it.
    fn between_lives(&mut self) -> anyhow::Result<()> {
        if self.mutation.is_some() {
            // What a broken rule does shows where nothing but the tables can tell.
            self.state.apply(Mishap::Deleted, &mut self.random)?;
            return Ok(());
        }
        if self.random.chance(25) {
            let mishap = self.state.suffer(&mut self.random)?;
            self.deeds.push(mishap.name().to_owned());
        }
        Ok(())
    }

    fn pause(&mut self, from_ms: u64, to_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.random.between(from_ms, to_ms)));
    }
}
