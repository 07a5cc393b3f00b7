//! What a campaign is told.

use calve_testkit::servers::Kind;

use crate::crash::source_of;

/// A campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The database to replicate from.
    pub source: Kind,
    /// Its version, as the test servers name it.
    pub version: String,
    /// Fixes every choice.
    pub seed: u64,
    /// How long to go on.
    pub minutes: u64,
    /// A rule of the protocol that the binary under test is told to break, to show that it is noticed.
    pub mutation: Option<String>,
}

/// The rules that can be broken.
const MUTATIONS: [&str; 2] = ["old-schema", "skip-off"];

const USAGE: &str = "\
usage: migrate --source postgres|mysql|mariadb [--version V] [--seed N] [--minutes M]
               [--mutation old-schema|skip-off]

Changes rows and definitions of tables at random for M minutes (2), with calve killed and away; again and again the tables
must equal the source. Versions: postgres 15, 17 (default), 18; mysql 9; mariadb 10.11, 11.8 (default).
Exit code 0: all rows were equal. 1: calve failed. 2: the campaign itself could not go on.";

impl Options {
    /// Reads a command line. `seed` is taken where none is given.
    pub fn parse(arguments: impl IntoIterator<Item = String>, seed: u64) -> Result<Self, String> {
        let (mut source, mut version, mut mutation) = (None, None, None);
        let (mut seed, mut minutes) = (seed, 2);
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            if name == "--help" {
                return Err(USAGE.to_owned());
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))?;
            let wrong = || format!("{name} cannot be '{value}'\n\n{USAGE}");
            match name.as_str() {
                "--source" => source = Some(value),
                "--version" => version = Some(value),
                "--seed" => seed = value.parse().map_err(|_| wrong())?,
                "--mutation" if MUTATIONS.contains(&value.as_str()) => mutation = Some(value),
                "--mutation" => return Err(wrong()),
                "--minutes" => minutes = value.parse().map_err(|_| wrong())?,
                _ => return Err(format!("{name} is not an option\n\n{USAGE}")),
            }
        }
        let word = source.ok_or_else(|| USAGE.to_owned())?;
        let (source, version) = source_of(&word, version).map_err(|what| format!("{what}\n\n{USAGE}"))?;
        Ok(Self { source, version, seed, minutes, mutation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned), 9)
    }

    #[test]
    fn a_command_line_is_understood_or_refused() {
        let expected = Options { source: Kind::MySql, version: "9".into(), seed: 7, minutes: 3, mutation: None };
        assert_eq!(parse("--source mysql --seed 7 --minutes 3"), Ok(expected));
        let expected = Options { source: Kind::Postgres, version: "15".into(), seed: 9, minutes: 2, mutation: None };
        assert_eq!(parse("--source postgres --version 15"), Ok(expected));
        let mutation = parse("--source mysql --mutation skip-off").map(|options| options.mutation);
        assert_eq!(mutation, Ok(Some("skip-off".to_owned())));
        for line in [
            "",
            "--source oracle",
            "--source mysql --minutes x",
            "--source mysql --version 17",
            "--source mysql --mutation x",
            "--what 1",
        ] {
            assert!(parse(line).is_err(), "{line:?} was taken");
        }
    }
}
