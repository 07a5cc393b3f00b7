//! The directory of fixtures, as it lies there: each is a script and what is expected of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use calve_testkit::servers::Kind;

use super::expected::{self, Block};
use super::script::Script;

/// A script and what is expected of it.
#[derive(Debug)]
pub(super) struct Fixture {
    pub(super) name: String,
    pub(super) script: Script,
    pub(super) blocks: Vec<Block>,
}

/// Longer names would make names of databases that are too long.
const LONGEST_NAME: usize = 36;

/// Runs the fixtures only whose names hold this.
const CHOSEN: &str = "CALVE_TEST_FIXTURE";

/// The fixtures of a kind of servers that are to be run.
pub(super) fn of(kind: Kind) -> anyhow::Result<Vec<Fixture>> {
    let mut fixtures = all(kind)?;
    if let Ok(part) = std::env::var(CHOSEN) {
        fixtures.retain(|fixture| fixture.name.contains(&part));
        ensure!(!fixtures.is_empty(), "{CHOSEN}={part} names no fixture of {}", root(kind).display());
    }
    Ok(fixtures)
}

/// The fixtures of a kind of servers, MySQL's and MariaDB's being the same. All that is wrong with them is told at once.
pub(super) fn all(kind: Kind) -> anyhow::Result<Vec<Fixture>> {
    read(&root(kind))
}

fn root(kind: Kind) -> PathBuf {
    let directory = if kind == Kind::Postgres { "postgres" } else { "mysql" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations-fixtures").join(directory)
}

fn read(directory: &Path) -> anyhow::Result<Vec<Fixture>> {
    let listed = std::fs::read_dir(directory).with_context(|| format!("listing {}", directory.display()))?;
    let files: Vec<PathBuf> = listed.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    let mut pairs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in &files {
        let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        pairs.entry(part(file.file_stem())).or_default().insert(part(file.extension()));
    }
    let both = ["expected", "sql"].map(str::to_owned).into();
    let mut wrong = Vec::new();
    let mut fixtures = Vec::new();
    for (name, extensions) in pairs {
        if extensions == both {
            match fixture(directory, &name) {
                Ok(fixture) => fixtures.push(fixture),
                Err(error) => wrong.push(format!("{name}: {error:#}")),
            }
        } else {
            wrong
                .push(format!("{name}: a fixture is {name}.sql and {name}.expected, but there is only {extensions:?}"));
        }
    }
    if !wrong.is_empty() {
        bail!("{}:\n{}", directory.display(), wrong.join("\n"));
    }
    ensure!(!fixtures.is_empty(), "{} is empty", directory.display());
    Ok(fixtures)
}

fn fixture(directory: &Path, name: &str) -> anyhow::Result<Fixture> {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    ensure!(plain && name.len() <= LONGEST_NAME, "its name is not of a-z, 0-9 and _, or longer than {LONGEST_NAME}");
    let text = |extension: &str| {
        let file = directory.join(name).with_extension(extension);
        std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
    };
    let script = Script::parse(&text("sql")?).context("its script")?;
    let blocks = expected::parse(&text("expected")?).context("its expectation")?;
    Ok(Fixture { name: name.to_owned(), script, blocks })
}

#[cfg(test)]
mod tests {
    use calve_integration::directory::Directory;

    use super::*;

    #[test]
    fn a_fixture_is_two_files() -> anyhow::Result<()> {
        let directory = Directory::new("fixtures")?;
        let told = || read(directory.path()).map(|found| found.len()).map_err(|error| format!("{error:#}"));
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text);
        assert!(told().unwrap_err().contains("is empty"));
        write("one.sql", "-- before\na;\n-- change\nb;\n-- after\nc;\n")?;
        write("two.expected", "table t\n")?;
        let wrong = told().unwrap_err();
        assert!(wrong.contains("one: ") && wrong.contains("two: "), "{wrong}");
        write("one.expected", "table t\n")?;
        std::fs::remove_file(directory.path().join("two.expected"))?;
        assert_eq!(told(), Ok(1));
        write("Two.sql", "")?;
        write("Two.expected", "")?;
        assert!(told().unwrap_err().contains("a-z"));
        Ok(())
    }

    #[test]
    fn the_fixtures_that_are_there_can_be_read() -> anyhow::Result<()> {
        for (kind, servers) in [
            (Kind::Postgres, &[(Kind::Postgres, "15"), (Kind::Postgres, "17"), (Kind::Postgres, "18")]),
            (Kind::MySql, &[(Kind::MySql, "9"), (Kind::MariaDb, "10.11"), (Kind::MariaDb, "11.8")]),
        ] {
            for fixture in of(kind)? {
                let runs = servers.iter().any(|(kind, version)| fixture.script.is_for(*kind, version));
                ensure!(runs, "{} is for none of the servers that there are", fixture.name);
            }
        }
        Ok(())
    }
}
