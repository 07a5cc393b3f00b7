//! The calve binary as a process: found, started, signalled, killed, and asked how it ended.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Longest time that a command which ends by itself is waited for.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// How a process ended, and what it said.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// The signal, where one ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error: the log.
    pub stderr: String,
}

impl Finished {
    /// An error, with the end of the log, unless the process ended with this code.
    pub fn expect_code(self, code: i32) -> anyhow::Result<Self> {
        if self.code == Some(code) {
            return Ok(self);
        }
        let ended = match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        bail!("calve ended with {ended}, expected exit code {code}\n{}{}", self.stdout, tail(&self.stderr))
    }

    /// As [`Finished::expect_code`] with 0.
    pub fn expect_success(self) -> anyhow::Result<Self> {
        self.expect_code(0)
    }

    /// What it said of why it failed: the one line on standard error that is no log line.
    pub fn complaint(&self) -> Option<&str> {
        self.stderr.lines().rev().find_map(|line| line.strip_prefix("calve: "))
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

/// The highest resident size in bytes, of `/proc/PID/status`.
pub(crate) fn parse_peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The binary under test: `CALVE_BIN`, or the one built beside the running program.
pub fn find() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os("CALVE_BIN") {
        return Ok(given.into());
    }
    let own = std::env::current_exe().context("looking for the calve binary")?;
    let found = own.ancestors().skip(1).take(3).map(|directory| directory.join("calve")).find(|file| file.is_file());
    found.context("no calve binary beside this program; run `cargo build -p calve --features failpoints,mutations`, or set CALVE_BIN")
}

/// A command line of calve's that hears nothing from this machine's environment.
pub fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> anyhow::Result<Command> {
    let mut command = Command::new(find()?);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent");
    Ok(command)
}

/// Runs a command that ends by itself.
pub fn finish(command: Command, log: &Path) -> anyhow::Result<Finished> {
    Running::start(command, log)?.wait(PATIENCE)
}

/// A running calve. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts it; what it says goes to `<log>.out` and `<log>.err`.
    pub fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let file = |extension: &str| {
            let path = log.with_extension(extension);
            File::create(&path).with_context(|| format!("cannot make {}", path.display())).map(|file| (path, file))
        };
        let ((stdout, out), (stderr, err)) = (file("out")?, file("err")?);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn().with_context(|| format!("cannot run {}", command.get_program().display()))?;
        Ok(Self { child, stdout, stderr })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it had resident so far, in bytes (`VmHWM` of `/proc/PID/status`).
    pub fn peak_bytes(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.id());
        let status = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        parse_peak(&status).with_context(|| format!("{path} names no peak"))
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        read(&self.stderr)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> anyhow::Result<Option<Finished>> {
        Ok(self.child.try_wait()?.map(|status| self.finished(status)))
    }

    /// Waits for its end.
    pub fn wait(mut self, patience: Duration) -> anyhow::Result<Finished> {
        let until = Instant::now() + patience;
        loop {
            if let Some(finished) = self.ended()? {
                return Ok(finished);
            }
            if Instant::now() > until {
                bail!("calve still runs after {patience:?}\n{}", tail(&self.log()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        anyhow::ensure!(sent.context("running kill")?.success(), "signal {name} could not be sent");
        Ok(())
    }

    /// Asks it to leave, and expects it to do so cleanly.
    pub fn terminate(self) -> anyhow::Result<Finished> {
        self.signal("TERM")?;
        self.wait(PATIENCE)?.expect_success()
    }

    /// `kill -9`.
    pub fn kill(mut self) -> anyhow::Result<Finished> {
        self.child.kill()?;
        let status = self.child.wait()?;
        Ok(self.finished(status))
    }

    fn finished(&self, status: ExitStatus) -> Finished {
        Finished {
            code: status.code(),
            signal: status.signal(),
            stdout: read(&self.stdout),
            stderr: read(&self.stderr),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
