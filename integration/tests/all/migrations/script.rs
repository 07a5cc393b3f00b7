//! A fixture's script: the statements of a migration, in steps. `migrations-fixtures/README.md` describes the form.

use anyhow::{Context, bail, ensure};
use calve_testkit::servers::Kind;

/// What is done at the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// The servers it is for, where not for all of its directory: a word of theirs and perhaps a version.
    only: Vec<(String, Option<String>)>,
    /// Its columns have types that Postgres streams as text.
    pub(super) streams_text: bool,
    /// Makes the tables, before calve sees them.
    pub(super) before: Vec<Statement>,
    /// The migration, step by step.
    pub(super) changes: Vec<Vec<Statement>>,
    /// Written once the tables that stopped were read again.
    pub(super) after: Vec<Statement>,
}

/// One statement, without its semicolon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) sql: String,
    /// The server must refuse it.
    pub(super) fails: bool,
}

/// The word for a kind of server, in scripts and expectations.
pub(super) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => "postgres",
        Kind::MySql => "mysql",
        Kind::MariaDb => "mariadb",
    }
}

impl Script {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut script = Self::default();
        let mut section = None;
        let mut pending = String::new();
        let mut fails = false;
        for (number, line) in (1..).zip(text.lines()) {
            let told = line.strip_prefix("-- ").map(str::trim);
            match (told, &mut section) {
                (Some(name @ ("before" | "change" | "after")), section) if pending.is_empty() => {
                    ensure!(!fails, "line {number}: no statement follows \"-- fails\"");
                    if name == "change" {
                        script.changes.push(Vec::new());
                    }
                    *section = Some(name);
                }
                (Some(header), None) => script.header(header).with_context(|| format!("line {number}"))?,
                (Some("fails"), Some(_)) if pending.is_empty() => fails = true,
                (Some(_), Some(_)) if pending.is_empty() => {}
                _ if pending.is_empty() && line.trim().is_empty() => {}
                (_, None) => bail!("line {number}: a statement before the first section"),
                (_, Some(section)) => {
                    pending.push_str(line);
                    // A body in dollar quotes has semicolons of its own.
                    if let Some(sql) = pending.trim_end().strip_suffix(';')
                        && pending.matches("$$").count().is_multiple_of(2)
                    {
                        let statement = Statement { sql: sql.trim().to_owned(), fails: std::mem::take(&mut fails) };
                        script.statements(section).push(statement);
                        pending.clear();
                    } else {
                        pending.push('\n');
                    }
                }
            }
        }
        ensure!(pending.is_empty(), "the last statement does not end with a semicolon: {pending}");
        ensure!(!script.before.is_empty(), "it has no section \"-- before\"");
        ensure!(!script.after.is_empty(), "it has no section \"-- after\": what shows that the table goes on?");
        ensure!(script.changes.iter().any(|step| !step.is_empty()), "it has no section \"-- change\"");
        Ok(script)
    }

    fn header(&mut self, line: &str) -> anyhow::Result<()> {
        if let Some(servers) = line.strip_prefix("only: ") {
            for server in servers.split(", ") {
                let (kind, version) =
                    server.split_once(' ').map_or((server, None), |(kind, version)| (kind, Some(version)));
                ensure!(["postgres", "mysql", "mariadb"].contains(&kind), "there is no kind of server \"{kind}\"");
                self.only.push((kind.to_owned(), version.map(str::to_owned)));
            }
        } else if let Some(stream) = line.strip_prefix("stream: ") {
            ensure!(stream == "text", "the stream is binary, or \"text\"; not \"{stream}\"");
            self.streams_text = true;
        }
        Ok(())
    }

    fn statements(&mut self, section: &str) -> &mut Vec<Statement> {
        match section {
            "before" => &mut self.before,
            "after" => &mut self.after,
            _ => self.changes.last_mut().expect("a section of changes has begun"),
        }
    }

    /// Whether it is run on this server.
    pub(super) fn is_for(&self, kind: Kind, version: &str) -> bool {
        let named =
            |(own, of): &(String, Option<String>)| own == word(kind) && of.as_deref().is_none_or(|of| of == version);
        self.only.is_empty() || self.only.iter().any(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_by_its_sections() {
        let text = "-- A column comes.\n-- only: mysql 9, mariadb\n\n-- before\ncreate table t (id int);\n\n\
                    -- change\n-- rows first\ninsert into t\n  values (1);\n-- fails\nalter table t drop nothing;\n\
                    -- change\ndo $$ begin\n  null;\nend $$;\n-- after\ninsert into t values (2);\n";
        let script = Script::parse(text).unwrap();
        let sql = |statements: &[Statement]| statements.iter().map(|s| (s.sql.clone(), s.fails)).collect::<Vec<_>>();
        assert_eq!(sql(&script.before), [("create table t (id int)".into(), false)]);
        assert_eq!(
            sql(&script.changes[0]),
            [("insert into t\n  values (1)".into(), false), ("alter table t drop nothing".into(), true)]
        );
        assert_eq!(sql(&script.changes[1]), [("do $$ begin\n  null;\nend $$".into(), false)]);
        assert_eq!(sql(&script.after), [("insert into t values (2)".into(), false)]);
        assert!(!script.streams_text);
        for (kind, version, runs) in [
            (Kind::MySql, "9", true),
            (Kind::MySql, "8.4", false),
            (Kind::MariaDb, "10.11", true),
            (Kind::Postgres, "17", false),
        ] {
            assert_eq!(script.is_for(kind, version), runs, "{kind} {version}");
        }
    }

    #[test]
    fn what_is_no_script_is_refused() {
        let whole = "-- before\na;\n-- change\nb;\n-- after\nc;\n";
        assert!(Script::parse(whole).unwrap().is_for(Kind::Postgres, "15"));
        for (text, why) in [
            (whole.replace("c;", "c"), "semicolon"),
            (whole.replace("-- after\nc;\n", ""), "after"),
            (whole.replace("-- change\nb;\n", ""), "change"),
            (whole.replace("-- before\na;\n", ""), "before"),
            (format!("a;\n{whole}"), "before the first section"),
            (format!("-- only: oracle\n{whole}"), "line 1"),
            (format!("-- stream: json\n{whole}"), "line 1"),
            (whole.replace("-- after", "-- fails\n-- after"), "fails"),
        ] {
            let error = format!("{:#}", Script::parse(&text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
