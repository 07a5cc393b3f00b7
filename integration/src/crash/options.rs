//! What a campaign is told.

use calve_testkit::servers::Kind as Source;

/// A rule of the protocol that the binary under test is told to break, to show that the suite notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The tables' commits carry no stamp.
    NoStamp,
    /// What a table already holds is not skipped on replay.
    SkipOff,
    /// The source is acknowledged before the commit.
    AckEarly,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NoStamp, Self::SkipOff, Self::AckEarly];

    /// Its name on the command line and in the binary's environment.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoStamp => "no-stamp",
            Self::SkipOff => "skip-off",
            Self::AckEarly => "ack-early",
        }
    }
}

/// A campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The database to replicate from.
    pub source: Source,
    /// Its version, as the test servers name it.
    pub version: String,
    /// Rounds to run.
    pub rounds: u32,
    /// Fixes every choice.
    pub seed: u64,
    /// Length of a round's load.
    pub seconds: u64,
    /// The server's settings, over those that the suite makes.
    pub settings: Vec<(String, String)>,
    /// A rule to break.
    pub mutation: Option<Mutation>,
}

/// How it is told.
pub(super) const USAGE: &str = "\
usage: crash --source postgres|mysql|mariadb [--version V] [--rounds N] [--seed S] [--seconds N] [--set NAME=VALUE]..
             [--mutation no-stamp|skip-off|ack-early]

Kills, restarts and damages a replication from a real database for N rounds; after each the tables must equal the source.
Versions: postgres 15, 17 (default), 18; mysql 9; mariadb 10.11, 11.8 (default). --set is a setting of that server's.
Exit code 0: nothing lost, nothing doubled. 1: calve failed. 2: the suite itself could not go on.";

/// The word for each source, and its versions, the default first.
const SOURCES: [(&str, Source, &[&str]); 3] = [
    ("postgres", Source::Postgres, &["17", "15", "18"]),
    ("mysql", Source::MySql, &["9"]),
    ("mariadb", Source::MariaDb, &["11.8", "10.11"]),
];

/// A source by its word, and the version wanted, or else its default one.
pub(crate) fn source_of(word: &str, version: Option<String>) -> Result<(Source, String), String> {
    let found = SOURCES.into_iter().find(|(known, ..)| *known == word);
    let (_, source, versions) = found.ok_or_else(|| format!("there is no source '{word}' here"))?;
    let version = version.unwrap_or_else(|| versions[0].to_owned());
    if !versions.contains(&version.as_str()) {
        return Err(format!("there is no {word} {version} here"));
    }
    Ok((source, version))
}

impl Options {
    /// Reads a command line. `seed` is taken where none is given.
    pub fn parse(arguments: impl IntoIterator<Item = String>, seed: u64) -> Result<Self, String> {
        let (mut source, mut version, mut settings, mut mutation) = (None, None, Vec::new(), None);
        let (mut rounds, mut seed, mut seconds) = (20, seed, 8);
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
                "--rounds" => rounds = value.parse().map_err(|_| wrong())?,
                "--seed" => seed = value.parse().map_err(|_| wrong())?,
                "--seconds" => seconds = value.parse().map_err(|_| wrong())?,
                "--set" => {
                    let (name, value) = value.split_once('=').ok_or_else(wrong)?;
                    settings.push((name.to_owned(), value.to_owned()));
                }
                "--mutation" => {
                    let known = Mutation::ALL.into_iter().find(|mutation| mutation.name() == value);
                    mutation = Some(known.ok_or_else(wrong)?);
                }
                _ => return Err(format!("{name} is not an option\n\n{USAGE}")),
            }
        }
        let word = source.ok_or_else(|| USAGE.to_owned())?;
        let (source, version) = source_of(&word, version).map_err(|what| format!("{what}\n\n{USAGE}"))?;
        Ok(Self { source, version, rounds, seed, seconds, settings, mutation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned), 9)
    }

    #[test]
    fn a_command_line_is_understood() {
        let expected = Options {
            source: Source::Postgres,
            version: "15".into(),
            rounds: 3,
            seed: 7,
            seconds: 8,
            settings: Vec::new(),
            mutation: Some(Mutation::AckEarly),
        };
        assert_eq!(parse("--source postgres --rounds 3 --seed 7 --version 15 --mutation ack-early"), Ok(expected));
        assert_eq!(parse("--source postgres").map(|options| options.seed), Ok(9));
    }

    #[test]
    fn every_source_has_a_version_of_its_own_and_takes_its_settings() {
        for (line, source, version) in [
            ("--source postgres", Source::Postgres, "17"),
            ("--source mysql", Source::MySql, "9"),
            ("--source mariadb", Source::MariaDb, "11.8"),
            ("--version 10.11 --source mariadb", Source::MariaDb, "10.11"),
        ] {
            let found = parse(line).map(|options| (options.source, options.version));
            assert_eq!(found, Ok((source, version.to_owned())), "{line}");
        }
        let settings = parse("--source mysql --set gtid_mode=OFF --set a=b=c").map(|options| options.settings);
        assert_eq!(settings, Ok(vec![("gtid_mode".into(), "OFF".into()), ("a".into(), "b=c".into())]));
    }

    #[test]
    fn a_wrong_one_is_refused() {
        for line in [
            "",
            "--source oracle",
            "--rounds 1",
            "--source postgres --rounds",
            "--source postgres --mutation x",
            "--source postgres --version 9",
            "--source mysql --version 17",
            "--source mysql --set gtid_mode",
            "--what 1",
        ] {
            assert!(parse(line).is_err(), "{line:?} was taken");
        }
    }
}
