//! `verify`: source against table.

use std::fmt::Write;
use std::time::Duration;

use calve_core::{ErrorKind, Result};

use crate::config::Settings;
use crate::ending::{Ending, with_causes};
use crate::verify::{Difference, Verdict, Verifier};
use crate::wiring;
use crate::{logging, show};

pub(crate) async fn verify(settings: Settings, show: usize, wait: Duration) -> Result<Ending> {
    logging::start(&settings);
    settings.source()?;
    let all = wiring::pipeline_tables(&settings).await?;
    let chosen = wiring::chosen_tables(&settings, &all)?;
    let verifier = Verifier::new(&settings, all, show, wait).await?;
    let mut all_equal = true;
    for table in chosen.keys() {
        match verifier.table(table).await {
            Ok(None) => show::line(&format!(
                "{table}: not compared: it is a log of changes (mode append), not the rows of the source"
            )),
            Ok(Some(verdict)) => {
                all_equal &= verdict.equal();
                show::text(&text(&table.to_string(), &verdict));
            }
            // What is wrong with one table says nothing of the others.
            Err(error) if error.kind() == ErrorKind::Config => {
                all_equal = false;
                show::line(&format!("{table}: not compared: {}", with_causes(&error)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(if all_equal { Ending::Done } else { Ending::Differs })
}

fn text(table: &str, verdict: &Verdict) -> String {
    let (source, lake) = (show::count(verdict.rows.0), show::count(verdict.rows.1));
    if verdict.equal() {
        let in_flight = if source == lake { String::new() } else { format!(" ({lake} in the table when it was read)") };
        return format!("{table}: equal, {source} rows{in_flight}\n{}", uncompared(verdict));
    }
    let count = show::count(verdict.differing);
    let mut out = format!("{table}: {count} keys differ; the source has {source} rows, the table {lake}\n");
    for (key, difference) in &verdict.examples {
        let how = match difference {
            Difference::Missing => "missing in the table",
            Difference::Extra => "not in the source",
            Difference::Unequal => "other values",
            Difference::Doubled => "more than once in the table",
        };
        let _ = writeln!(out, "  {key}: {how}");
    }
    let hidden = verdict.differing - verdict.examples.len() as u64;
    if hidden > 0 {
        let _ = writeln!(out, "  and {} more", show::count(hidden));
    }
    out.push_str(&uncompared(verdict));
    if let Some(note) = &verdict.note {
        let _ = writeln!(out, "  {note}");
    }
    out
}

fn uncompared(verdict: &Verdict) -> String {
    match verdict.uncompared {
        0 => String::new(),
        rows => format!(
            "  {} rows were not compared: updates meanwhile left large values of them alone; verify again\n",
            show::count(rows)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_up_to_a_limit() {
        let verdict = Verdict {
            rows: (1_000, 999),
            differing: 3,
            examples: vec![("id=1".to_owned(), Difference::Missing), ("id=2".to_owned(), Difference::Unequal)],
            uncompared: 4,
            note: Some("late".to_owned()),
        };
        let expected = "public.t: 3 keys differ; the source has 1,000 rows, the table 999\n  id=1: missing in the table\n  \
                        id=2: other values\n  and 1 more\n  4 rows were not compared: updates meanwhile left large values \
                        of them alone; verify again\n  late\n";
        assert_eq!(text("public.t", &verdict), expected);
        let equal = Verdict { rows: (5, 5), differing: 0, examples: Vec::new(), uncompared: 0, note: None };
        assert_eq!(text("public.t", &equal), "public.t: equal, 5 rows\n");
    }
}
