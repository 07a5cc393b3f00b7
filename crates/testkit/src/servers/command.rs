//! The script that servers are run by, and how its failures are told.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Why a server could not be had or did not do what it was told.
#[derive(Debug)]
pub struct ServerError {
    pub(super) doing: String,
    pub(super) said: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.doing, self.said)
    }
}

impl std::error::Error for ServerError {}

/// Runs `servers.py` and returns what it printed.
pub(super) fn servers<S: AsRef<str>>(arguments: &[S], input: Option<&str>) -> Result<String, ServerError> {
    let words: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let failed = |said: String| ServerError { doing: format!("servers.py {}", words.join(" ")), said };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration/servers/servers.py");
    // The system's own starts quicker than a version manager's in front of it.
    let python = Path::new("/usr/bin/python3");
    let mut child = Command::new(if python.exists() { python } else { Path::new("python3") })
        .arg(script)
        .args(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("cannot run python3: {error}; install it (apt-get install python3)")))?;
    let stdin = child.stdin.take();
    // Input goes in on a thread of its own: psql prints while it reads, and either pipe can fill.
    let (written, done) = std::thread::scope(|scope| {
        let writer = scope.spawn(move || match stdin {
            Some(mut stdin) => stdin.write_all(input.unwrap_or_default().as_bytes()),
            None => Ok(()),
        });
        let done = child.wait_with_output();
        (writer.join(), done)
    });
    let done = done.map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        return Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned()));
    }
    match written {
        Ok(Ok(())) => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        Ok(Err(error)) => Err(failed(format!("it did not read all of its input: {error}"))),
        Err(_) => Err(failed("the thread that wrote its input panicked".to_owned())),
    }
}
