//! What a campaign is told.

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
    /// Rounds to run.
    pub rounds: u32,
    /// Fixes every choice.
    pub seed: u64,
    /// Length of a round's load.
    pub seconds: u64,
    /// Major version of Postgres.
    pub version: u32,
    /// A rule to break.
    pub mutation: Option<Mutation>,
}

/// How it is told.
pub(super) const USAGE: &str = "\
usage: crash --source postgres [--rounds N] [--seed S] [--seconds N] [--version 15|17|18] [--mutation no-stamp|skip-off|ack-early]

Kills, restarts and damages a replication from a real Postgres for N rounds; after each the tables must equal the source.
Exit code 0: nothing lost, nothing doubled. 1: calve failed. 2: the suite itself could not go on.";

impl Options {
    /// Reads a command line. `seed` is taken where none is given.
    pub fn parse(arguments: impl IntoIterator<Item = String>, seed: u64) -> Result<Self, String> {
        let mut options = Self { rounds: 20, seed, seconds: 8, version: 17, mutation: None };
        let mut source = None;
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            if name == "--help" {
                return Err(USAGE.to_owned());
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))?;
            let wrong = || format!("{name} cannot be '{value}'\n\n{USAGE}");
            match name.as_str() {
                "--source" => source = Some(value),
                "--rounds" => options.rounds = value.parse().map_err(|_| wrong())?,
                "--seed" => options.seed = value.parse().map_err(|_| wrong())?,
                "--seconds" => options.seconds = value.parse().map_err(|_| wrong())?,
                "--version" => options.version = value.parse().map_err(|_| wrong())?,
                "--mutation" => {
                    let known = Mutation::ALL.into_iter().find(|mutation| mutation.name() == value);
                    options.mutation = Some(known.ok_or_else(wrong)?);
                }
                _ => return Err(format!("{name} is not an option\n\n{USAGE}")),
            }
        }
        match source.as_deref() {
            Some("postgres") => Ok(options),
            Some(other) => Err(format!("there is no source '{other}' to crash; --source postgres\n\n{USAGE}")),
            None => Err(USAGE.to_owned()),
        }
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
        let expected = Options { rounds: 3, seed: 7, seconds: 8, version: 15, mutation: Some(Mutation::AckEarly) };
        assert_eq!(parse("--source postgres --rounds 3 --seed 7 --version 15 --mutation ack-early"), Ok(expected));
        assert_eq!(parse("--source postgres").map(|options| options.seed), Ok(9));
    }

    #[test]
    fn a_wrong_one_is_refused() {
        for line in [
            "",
            "--source mysql",
            "--rounds 1",
            "--source postgres --rounds",
            "--source postgres --mutation x",
            "--what 1",
        ] {
            assert!(parse(line).is_err(), "{line:?} was taken");
        }
    }
}
