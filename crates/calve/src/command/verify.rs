//! `verify`: source against table.

use std::time::Duration;

use calve_core::Result;

use crate::config::Settings;
use crate::ending::Ending;
use crate::show;
use crate::verify::{Difference, Verdict, Verifier};
use crate::wiring;

pub(crate) async fn verify(settings: Settings, show: usize, wait: Duration) -> Result<Ending> {
    settings.source()?;
    let all = wiring::pipeline_tables(&settings).await?;
    let chosen = wiring::chosen_tables(&settings, &all)?;
    let verifier = Verifier::new(&settings, all, show, wait).await?;
    let mut all_equal = true;
    for table in chosen.keys() {
        let verdict = verifier.table(table).await?;
        all_equal &= verdict.equal();
        print!("{}", text(&table.to_string(), &verdict));
    }
    Ok(if all_equal { Ending::Done } else { Ending::Differs })
}

fn text(table: &str, verdict: &Verdict) -> String {
    let (source, lake) = (show::count(verdict.rows.0), show::count(verdict.rows.1));
    if verdict.equal() {
        let in_flight = if source == lake { String::new() } else { format!(" ({lake} in the table when it was read)") };
        return format!("{table}: equal, {source} rows{in_flight}\n");
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
        out.push_str(&format!("  {key}: {how}\n"));
    }
    let hidden = verdict.differing - verdict.examples.len() as u64;
    if hidden > 0 {
        out.push_str(&format!("  and {} more\n", show::count(hidden)));
    }
    if let Some(note) = &verdict.note {
        out.push_str(&format!("  {note}\n"));
    }
    out
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
            note: Some("late".to_owned()),
        };
        let expected = "public.t: 3 keys differ; the source has 1,000 rows, the table 999\n  id=1: missing in the table\n  \
                        id=2: other values\n  and 1 more\n  late\n";
        assert_eq!(text("public.t", &verdict), expected);
        let equal = Verdict { rows: (5, 5), differing: 0, examples: Vec::new(), note: None };
        assert_eq!(text("public.t", &equal), "public.t: equal, 5 rows\n");
    }
}
