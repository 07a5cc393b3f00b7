//! What a process used, and what is printed of a measurement.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::binary::{Running, parse_peak};

/// Longest time that a measured process is waited for.
const PATIENCE: Duration = Duration::from_hours(2);
/// Between two looks at a running process. Its memory is told as the highest ever, its end is noticed this late.
const LOOK_EVERY: Duration = Duration::from_millis(4);
/// Ticks a second in which Linux tells processes' times, on every architecture (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process used from its start to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) wall: Duration,
    /// Of all its threads, in the kernel and out of it.
    pub(super) cpu: Duration,
    pub(super) max_rss_bytes: u64,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wall, cpu) = (self.wall.as_secs_f64(), self.cpu.as_secs_f64());
        write!(f, "{wall:.2} s, {cpu:.2} CPU-s, {} MB", self.max_rss_bytes / 1_000_000)
    }
}

/// Runs a command that must end well.
pub(super) fn run(command: Command, log: &Path) -> anyhow::Result<Usage> {
    let started = Instant::now();
    let running = Running::start(command, log)?;
    let mut watch = Watch::new(running.id());
    while !watch.look()? {
        if started.elapsed() > PATIENCE {
            bail!("calve still runs after {PATIENCE:?}");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let usage = watch.usage(started.elapsed());
    running.wait(Duration::from_mins(1))?.expect_success()?;
    Ok(usage)
}

/// Looks at a process from outside. One that has ended is still told about until it is waited for.
#[derive(Debug)]
pub(super) struct Watch {
    process: u32,
    cpu: Duration,
    max_rss_bytes: u64,
}

impl Watch {
    pub(super) fn new(process: u32) -> Self {
        Self { process, cpu: Duration::ZERO, max_rss_bytes: 0 }
    }

    /// Takes down what it used so far. True once it has ended.
    pub(super) fn look(&mut self) -> anyhow::Result<bool> {
        let stat = self.read("stat")?;
        let (state, cpu) = parse_stat(&stat).with_context(|| format!("/proc/{}/stat is '{stat}'", self.process))?;
        self.cpu = cpu;
        // A process that has ended has no memory to tell of.
        if let Some(bytes) = parse_peak(&self.read("status")?) {
            self.max_rss_bytes = bytes;
        }
        Ok(state == 'Z')
    }

    pub(super) fn usage(&self, wall: Duration) -> Usage {
        Usage { wall, cpu: self.cpu, max_rss_bytes: self.max_rss_bytes }
    }

    fn read(&self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{file}", self.process);
        std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))
    }
}

/// State and processor time of `/proc/PID/stat` (proc(5)): fields 3, 14 and 15, counted behind the name in parentheses.
fn parse_stat(stat: &str) -> Option<(char, Duration)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u32>().ok();
    let cpu = f64::from(ticks(11)?.checked_add(ticks(12)?)?) / TICKS_PER_SECOND;
    Some((fields.first()?.chars().next()?, Duration::from_secs_f64(cpu)))
}

/// One run of calve and one of the limit beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) calve: Usage,
    pub(super) limit: Duration,
}

/// What a scenario ends with.
#[derive(Clone, Debug)]
pub struct Outcome {
    scenario: String,
    /// Rows of each run.
    rows: u64,
    /// Bytes of each run, as the source counts them.
    bytes: u64,
    pairs: Vec<Pair>,
}

impl Outcome {
    pub(super) fn new(scenario: &str, rows: u64, bytes: u64, pairs: Vec<Pair>) -> Self {
        Self { scenario: scenario.to_owned(), rows, bytes, pairs }
    }

    /// The highest resident size of calve's in any run.
    pub fn max_rss_bytes(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.calve.max_rss_bytes).max().unwrap_or(0)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wall = median(self.pairs.iter().map(|pair| pair.calve.wall.as_secs_f64()));
        let cpu = median(self.pairs.iter().map(|pair| pair.calve.cpu.as_secs_f64()));
        let ratio = median(self.pairs.iter().map(|pair| pair.calve.wall.as_secs_f64() / pair.limit.as_secs_f64()));
        let millions = number(self.rows) / 1e6;
        write!(
            f,
            "RESULT scenario={} ratio={ratio:.2} rows_per_s={:.0} mb_per_s={:.1} cpu_s_per_m_rows={:.2} max_rss_mb={}",
            self.scenario,
            number(self.rows) / wall,
            number(self.bytes) / 1e6 / wall,
            cpu / millions,
            self.max_rss_bytes() / 1_000_000,
        )
    }
}

/// What `latency` ends with.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Of every row, in no order.
    pub(super) all: Vec<Duration>,
    pub(super) calve: Usage,
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.all.clone();
        sorted.sort_unstable();
        let millis = |percent: usize| {
            let last = sorted.len().saturating_sub(1);
            sorted.get(last.min(sorted.len() * percent / 100)).map_or(0, Duration::as_millis)
        };
        let (rows, wall) = (number(self.all.len() as u64), self.calve.wall.as_secs_f64());
        write!(
            f,
            "RESULT scenario=latency p50_ms={} p99_ms={} rows_per_s={:.0} cpu_s_per_m_rows={:.2} max_rss_mb={}",
            millis(50),
            millis(99),
            rows / wall,
            self.calve.cpu.as_secs_f64() / (rows / 1e6),
            self.calve.max_rss_bytes / 1_000_000,
        )
    }
}

/// The middle one, or the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle)) {
        (1, Some(value)) => *value,
        (_, Some(upper)) => f64::midpoint(sorted[middle - 1], *upper),
        (_, None) => f64::NAN,
    }
}

/// A count that is divided by: rows and bytes are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "figures are printed with three digits")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_about_by_its_fields() {
        let stat = "4242 (a (odd) name) Z 1 4242 4242 0 -1 4194560 100 0 0 0 150 25 0 0 20 0 9 0 123 0 0";
        assert_eq!(parse_stat(stat), Some(('Z', Duration::from_millis(1750))));
        assert_eq!(parse_stat("4242 (name) R 1"), None);
        assert_eq!(parse_peak("Name:\tcalve\nVmHWM:\t   2048 kB\nVmRSS:\t 10 kB\n"), Some(2 << 20));
        assert_eq!(parse_peak("Name:\tcalve\n"), None);
    }

    #[test]
    fn a_command_is_measured_and_must_end_well() {
        let log = |name: &str| std::env::temp_dir().join(format!("calve-measure-{}-{name}", std::process::id()));
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let usage = run(shell("sleep 0.2"), &log("well")).unwrap();
        assert!(usage.wall >= Duration::from_millis(200) && usage.max_rss_bytes > 0, "{usage:?}");
        assert!(run(shell("exit 3"), &log("badly")).is_err());
        for file in ["well.out", "well.err", "badly.out", "badly.err"] {
            std::fs::remove_file(log(file)).unwrap();
        }
    }

    #[test]
    fn the_result_line_has_medians() {
        let pair = |calve_s: u64, cpu_s: u64, limit_s: u64| Pair {
            calve: Usage {
                wall: Duration::from_secs(calve_s),
                cpu: Duration::from_secs(cpu_s),
                max_rss_bytes: calve_s * 100_000_000,
            },
            limit: Duration::from_secs(limit_s),
        };
        let outcome = Outcome::new("s", 4_000_000, 80_000_000, vec![pair(2, 4, 1), pair(4, 8, 4), pair(3, 6, 2)]);
        assert_eq!(
            outcome.to_string(),
            "RESULT scenario=s ratio=1.50 rows_per_s=1333333 mb_per_s=26.7 cpu_s_per_m_rows=1.50 max_rss_mb=400"
        );
        assert_eq!(
            Outcome::new("s", 1, 1, vec![pair(2, 4, 1), pair(2, 4, 2)]).to_string().split(' ').nth(2),
            Some("ratio=1.50")
        );
    }
}
