//! What is wrong with a configuration, and where: collected, then reported all at once.

use std::fmt;
use std::path::Path;

use calve_core::{Error, ErrorKind};

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// On the command line, by this flag.
    Flag(String),
    /// In the file, on this line.
    Line(usize),
    /// Remembered from an earlier run of the pipeline.
    Record,
    /// Nowhere: it is missing.
    Nowhere,
}

/// One thing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) origin: Origin,
    pub(crate) what: String,
}

impl Problem {
    pub(crate) fn new(origin: Origin, what: impl Into<String>) -> Self {
        Self { origin, what: what.into() }
    }
}

/// Everything found wrong, in the order it was found.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The error that reports all of them; one problem is one line.
    pub(crate) fn into_error(mut self, file: Option<&Path>) -> Error {
        // A reader follows a list downwards: file problems by line, the rest before them.
        self.0.sort_by_key(|problem| if let Origin::Line(line) = problem.origin { line } else { 0 });
        let line = |problem: &Problem| Located { problem, file }.to_string();
        let message = match self.0.as_slice() {
            [one] => line(one),
            many => {
                let lines: Vec<_> = many.iter().map(|problem| format!("\n  {}", line(problem))).collect();
                format!("the configuration has {} problems:{}", many.len(), lines.concat())
            }
        };
        Error::new(ErrorKind::Config, message)
    }

    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.iter().map(|problem| Located { problem, file: Some(Path::new("calve.yaml")) }.to_string()).collect()
    }
}

struct Located<'a> {
    problem: &'a Problem,
    file: Option<&'a Path>,
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.map_or_else(|| "configuration".into(), |file| file.display().to_string());
        match &self.problem.origin {
            Origin::Flag(flag) => write!(f, "{flag}: ")?,
            Origin::Line(0) => write!(f, "{file}: ")?,
            Origin::Line(line) => write!(f, "{file}:{line}: ")?,
            Origin::Record => write!(f, "pipeline.json: ")?,
            Origin::Nowhere => {}
        }
        f.write_str(&self.problem.what)
    }
}
