//! `check`: everything that would keep the pipeline from running, each with what mends it.

use calve_core::{Error, ErrorKind, Result};
use calve_postgres::{Finding, Severity};

use crate::config::Settings;
use crate::ending::Ending;
use crate::wiring::{self, Targets};

pub(crate) async fn check(settings: Settings) -> Result<Ending> {
    let targets = wiring::select_tables(&settings).await?;
    let findings = findings(&settings, &targets).await?;
    for finding in &findings {
        println!("{}", block(finding));
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    let tables = targets.len();
    match (errors, warnings) {
        (0, 0) => println!("ready: {tables} tables can be replicated"),
        (0, _) => println!("ready: {tables} tables can be replicated; {warnings} warnings"),
        _ => println!("not ready: {errors} to be mended, {warnings} warnings"),
    }
    Ok(if errors == 0 { Ending::Done } else { Ending::Unmet })
}

/// What `run` does first: errors end it, warnings are logged.
pub(crate) async fn refuse_unmet(settings: &Settings, targets: &Targets) -> Result<()> {
    let mut errors = Vec::new();
    for finding in findings(settings, targets).await? {
        if finding.severity == Severity::Error {
            errors.push(finding);
        } else {
            tracing::warn!("{}", finding.to_string().replace('\n', " "));
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(Error::new(ErrorKind::Config, one.to_string())),
        many => {
            let lines: Vec<_> = many.iter().map(|finding| format!("\n  {finding}")).collect();
            let message = format!("{} preconditions are not met:{}", many.len(), lines.concat());
            Err(Error::new(ErrorKind::Config, message))
        }
    }
}

async fn findings(settings: &Settings, targets: &Targets) -> Result<Vec<Finding>> {
    let tables: Vec<_> = targets.keys().cloned().collect();
    calve_postgres::check(&wiring::postgres_settings(settings)?, &tables).await
}

/// What is wrong, and below it what mends it, ready to be pasted.
fn block(finding: &Finding) -> String {
    let word = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let remedy = finding.remedy.replace('\n', "\n    ");
    format!("{word}: {}\n    {remedy}\n", finding.what)
}
