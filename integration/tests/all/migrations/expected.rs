//! What a fixture's tables must have become in the lake. `migrations-fixtures/README.md` describes the form.

use std::fmt::{self, Write as _};

use anyhow::{Context, bail, ensure};
use calve_integration::sql::TextRows;

/// What one table must have become, in the runs that the block is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) table: String,
    /// The ways, kinds and versions of servers it is for: all where there are none.
    pub(super) only: Vec<String>,
    pub(super) outcome: Outcome,
    pub(super) state: State,
}

/// How a table comes through the migration. Steps are counted from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Equal to its source after every step.
    #[default]
    GoesOn,
    /// It stops at this step and says these words; read again it goes on.
    Stops { step: usize, says: String },
    /// The same, but it cannot be read again.
    Gone { step: usize, says: String },
    /// From this step on it differs from its source and nothing tells so; read again it goes on. The words say what the log
    /// does not carry.
    Unnoticed { step: usize, what: String },
}

/// A table in the lake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// In the order of the table's schema.
    pub(super) columns: Vec<Column>,
    /// Values as the readers show them, sorted.
    pub(super) rows: TextRows,
}

/// A field of the table's present schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) id: i64,
    pub(super) name: String,
    /// As Iceberg writes it, without spaces.
    pub(super) ty: String,
    pub(super) required: bool,
    pub(super) key: bool,
    /// The source has it no longer.
    pub(super) dropped: bool,
}

/// Reads the blocks of a file.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut part = "";
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let read = match (line, blocks.last_mut()) {
            (head, _) if head.starts_with("table ") => {
                part = "";
                head_of(&head["table ".len()..]).map(|block| blocks.push(block))
            }
            ("columns", Some(_)) => {
                part = "columns";
                Ok(())
            }
            ("rows", Some(_)) => {
                part = "rows";
                Ok(())
            }
            (column, Some(block)) if part == "columns" => {
                Column::parse(column).map(|column| block.state.columns.push(column))
            }
            (row, Some(block)) if part == "rows" => row_of(row).map(|row| block.state.rows.push(row)),
            (outcome, Some(block)) => Outcome::parse(outcome).map(|outcome| block.outcome = outcome),
            (_, None) => Err(anyhow::anyhow!("it begins with no table")),
        };
        read.with_context(|| format!("line {number}: {line}"))?;
    }
    ensure!(!blocks.is_empty(), "it names no table");
    for block in &mut blocks {
        block.state.rows.sort();
    }
    Ok(blocks)
}

/// Of each table the one block that is for a run of which all these words are true.
pub(super) fn of_run<'a>(blocks: &'a [Block], true_words: &[&str]) -> anyhow::Result<Vec<&'a Block>> {
    let fits = |block: &&Block| block.only.iter().all(|word| true_words.contains(&word.as_str()));
    let mut found: Vec<&Block> = Vec::new();
    for table in blocks.iter().map(|block| &block.table) {
        if found.iter().any(|block| block.table == *table) {
            continue;
        }
        let mut fitting = blocks.iter().filter(|block| block.table == *table).filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(block), None) => found.push(block),
            (None, _) => bail!("no block of table {table} is for this run ({})", true_words.join(", ")),
            (Some(_), Some(_)) => bail!("two blocks of table {table} are for this run ({})", true_words.join(", ")),
        }
    }
    Ok(found)
}

fn head_of(text: &str) -> anyhow::Result<Block> {
    let (table, rest) = word(text)?;
    let only = rest.strip_prefix(',').unwrap_or_default().split(',').map(|word| word.trim().to_owned());
    let only: Vec<String> = only.filter(|word| !word.is_empty()).collect();
    ensure!(rest.is_empty() || !only.is_empty(), "what follows the table's name is no list");
    Ok(Block { table, only, ..Block::default() })
}

impl Outcome {
    fn parse(line: &str) -> anyhow::Result<Self> {
        let (what, words) = line.split_once(": ").context("neither an outcome, nor \"columns\", nor \"rows\"")?;
        let (verb, step) = what.split_once(" at ").context("an outcome says at which step")?;
        let step = step.parse().context("the step is no number")?;
        let words = words.to_owned();
        Ok(match verb {
            "stops" => Self::Stops { step, says: words },
            "is gone" => Self::Gone { step, says: words },
            "unnoticed" => Self::Unnoticed { step, what: words },
            other => bail!("there is no outcome \"{other}\""),
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GoesOn => Ok(()),
            Self::Stops { step, says } => writeln!(f, "  stops at {step}: {says}"),
            Self::Gone { step, says } => writeln!(f, "  is gone at {step}: {says}"),
            Self::Unnoticed { step, what } => writeln!(f, "  unnoticed at {step}: {what}"),
        }
    }
}

impl Column {
    /// `1 name type [required] [key] [dropped]`.
    fn parse(line: &str) -> anyhow::Result<Self> {
        let (id, rest) = line.split_once(' ').context("a column has a number, a name and a type")?;
        let (name, rest) = word(rest)?;
        let mut words = rest.split_whitespace();
        let ty = words.next().context("a column has a type")?.to_owned();
        let id = id.parse().context("a column begins with its number")?;
        let mut column = Self { id, name, ty, required: false, key: false, dropped: false };
        for word in words {
            match word {
                "required" => column.required = true,
                "key" => column.key = true,
                "dropped" => column.dropped = true,
                other => bail!("a column is required, key or dropped; not {other}"),
            }
        }
        Ok(column)
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    {} {} {}", self.id, name(&self.name), self.ty)?;
        for (is_so, word) in [(self.required, " required"), (self.key, " key"), (self.dropped, " dropped")] {
            f.write_str(if is_so { word } else { "" })?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}", name(&self.table))?;
        for word in &self.only {
            write!(f, ", {word}")?;
        }
        writeln!(f)?;
        write!(f, "{}{}", self.outcome, self.state)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  columns")?;
        for column in &self.columns {
            write!(f, "{column}")?;
        }
        writeln!(f, "  rows")?;
        let mut rows: Vec<&Vec<Option<String>>> = self.rows.iter().collect();
        rows.sort_by_key(|row| (row.first().and_then(|id| id.as_deref()?.parse::<i64>().ok()), *row));
        for row in rows {
            let cells: Vec<String> = row.iter().map(|value| cell(value.as_deref())).collect();
            writeln!(f, "    {}", cells.join(" | "))?;
        }
        Ok(())
    }
}

/// A word that may stand in quotes, and what follows it.
fn word(text: &str) -> anyhow::Result<(String, &str)> {
    if !text.starts_with('"') {
        let end = text.find([' ', ',']).unwrap_or(text.len());
        return Ok((text[..end].to_owned(), text[end..].trim_start()));
    }
    let mut words = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let word = words.next().context("nothing is quoted")?.context("a word in quotes is written as in JSON")?;
    let end = words.byte_offset();
    Ok((word, text[end..].trim_start()))
}

fn name(name: &str) -> String {
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if plain { name.to_owned() } else { serde_json::Value::from(name).to_string() }
}

/// Cells between ` | `.
fn row_of(line: &str) -> anyhow::Result<Vec<Option<String>>> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let after;
        if rest.starts_with('"') {
            let mut text = String::new();
            while rest.starts_with('"') {
                let (part, more) = word(rest)?;
                let (times, more) = match more.strip_prefix("* ") {
                    Some(more) => {
                        let end = more.find(' ').unwrap_or(more.len());
                        (more[..end].parse().context("after * stands how often")?, more[end..].trim_start())
                    }
                    None => (1, more),
                };
                text.push_str(&part.repeat(times));
                rest = more;
            }
            cells.push(Some(text));
            after = rest;
        } else {
            let end = rest.find(" | ").unwrap_or(rest.len());
            let text = &rest[..end];
            cells.push((text != "NULL").then(|| text.to_owned()));
            after = rest[end..].trim_start();
        }
        match after.strip_prefix('|') {
            Some(more) => rest = more.trim_start(),
            None if after.is_empty() => return Ok(cells),
            None => bail!("no | before {after}"),
        }
    }
}

/// The longest text that stands as it is, whatever it repeats.
const PLAIN: usize = 80;

fn cell(value: Option<&str>) -> String {
    let Some(text) = value else { return "NULL".to_owned() };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    if text.len() > PLAIN {
        // Bytes in hex begin as no others of theirs.
        let (head, rest) = text.strip_prefix("\\x").map_or(("", text), |digits| ("\\x", digits));
        let whole = |end: &usize| rest.is_char_boundary(*end) && rest[..*end].repeat(rest.len() / end) == rest;
        if let Some(end) = (1..=PLAIN).filter(|end| rest.len().is_multiple_of(*end)).find(whole) {
            let head = if head.is_empty() { String::new() } else { format!("{} ", quoted(head)) };
            return format!("{head}{} * {}", quoted(&rest[..end]), rest.len() / end);
        }
    }
    let plain = !text.is_empty()
        && text != "NULL"
        && text.trim() == text
        && !text.contains(['|', '"', '#'])
        && !text.chars().any(char::is_control);
    if plain { text.to_owned() } else { quoted(text) }
}

/// Lines of the one text that the other does not have, marked.
pub(super) fn difference(expected: &State, found: &State) -> Option<String> {
    if expected == found {
        return None;
    }
    let (expected, found) = (expected.to_string(), found.to_string());
    let mut text = String::new();
    for line in expected.lines().filter(|line| !found.lines().any(|other| other == *line)) {
        let _ = writeln!(text, "    expected {}", line.trim());
    }
    for line in found.lines().filter(|line| !expected.lines().any(|other| other == *line)) {
        let _ = writeln!(text, "    found    {}", line.trim());
    }
    if text.is_empty() {
        text.push_str("    the same lines, in another order or number\n");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# Says why.
table t, running, mysql
  stops at 2: was added with a default
  columns
    1 id int required key
    3 "odd \"name\"" decimal(8,2)
    2 gone string dropped
  rows
    1 | 1.50 | NULL
    2 | "" | "ab" * 41
    10 | "NULL" | "a | b"
    11 | "\\x" "01ff" * 21 | x

table t, away
  is gone at 1: dropped
  columns
    1 id int required key
  rows

table "my table"
  unnoticed at 1: labels
  columns
    1 id int required key
  rows
"#;

    #[test]
    fn an_expectation_is_read_as_it_is_written() {
        let blocks = parse(TEXT).unwrap();
        let written: Vec<String> = blocks.iter().map(ToString::to_string).collect();
        assert_eq!(format!("# Says why.\n{}", written.join("\n")), TEXT);
        assert_eq!(blocks[0].state.columns[1].name, "odd \"name\"");
        assert_eq!(blocks[0].outcome, Outcome::Stops { step: 2, says: "was added with a default".into() });
        let rows = &blocks[0].state.rows;
        assert_eq!(rows[0], [Some("1".into()), Some("1.50".into()), None]);
        assert_eq!(rows[1], [Some("10".into()), Some("NULL".into()), Some("a | b".into())]);
        assert_eq!(rows[2][1].as_deref(), Some(&*format!("\\x{}", "01ff".repeat(21))));
        assert_eq!(rows[3], [Some("2".into()), Some(String::new()), Some("ab".repeat(41))]);
    }

    #[test]
    fn a_run_has_one_block_a_table() {
        let blocks = parse(TEXT).unwrap();
        let found = |words: &[&str]| {
            of_run(&blocks, words).map(|found| found.iter().map(|block| block.only.len()).collect::<Vec<_>>())
        };
        assert_eq!(found(&["running", "mysql", "9"]).unwrap(), [2, 0]);
        assert_eq!(found(&["away", "mysql", "9"]).unwrap(), [1, 0]);
        assert!(found(&["running", "mariadb"]).unwrap_err().to_string().contains("no block of table t"));
        let doubled = parse(&format!("{TEXT}table t\n")).unwrap();
        assert!(of_run(&doubled, &["away"]).unwrap_err().to_string().contains("two blocks"));
    }

    #[test]
    fn what_is_no_expectation_is_refused() {
        for (text, why) in [
            ("", "names no table"),
            ("columns\n", "line 1"),
            ("table t\n  explodes at 1: loudly\n", "explodes"),
            ("table t\n  stops: loudly\n", "at which step"),
            ("table t\n  columns\n    one id int\n", "number"),
            ("table t\n  columns\n    1 id int optional\n", "optional"),
            ("table t\n  rows\n    \"a\" b\n", "no |"),
            ("table t\n  rows\n    \"a\" * b\n", "how often"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn states_differ_by_columns_and_by_rows() {
        let blocks = parse("table t\n  columns\n    1 id int required key\n  rows\n    1\n    2\n").unwrap();
        let state = &blocks[0].state;
        assert_eq!(difference(state, state), None);
        let mut found = state.clone();
        found.rows.push(vec![None]);
        found.columns[0].required = false;
        let told = difference(state, &found).unwrap();
        assert_eq!(told, "    expected 1 id int required key\n    found    1 id int key\n    found    NULL\n");
        found = state.clone();
        found.rows.push(vec![Some("2".into())]);
        assert!(difference(state, &found).unwrap().contains("number"));
    }
}
