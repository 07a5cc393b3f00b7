//! `check`: everything that would keep the pipeline from running, each with what mends it.

mod lake;

use calve_core::{Error, ErrorKind, Finding, Result, Severity, TableName};

use crate::config::Settings;
use crate::ending::Ending;
use crate::show;
use crate::wiring::{self, Found, Targets};

pub(crate) async fn check(settings: Settings) -> Result<Ending> {
    let Found { targets, members, wrong } = wiring::look_for_tables(&settings).await?;
    let selection = wrong.into_iter().map(|what| Finding {
        severity: Severity::Error,
        what,
        remedy: "correct the selection of tables".to_owned(),
    });
    let mut findings: Vec<Finding> = selection.collect();
    findings.extend(source_findings(&settings, targets.keys()).await?);
    findings.extend(lake::findings(&settings, &targets).await);
    findings.sort_by_key(|finding| finding.severity != Severity::Error);
    for finding in &findings {
        show::line(&block(finding));
    }
    for (table, members) in &members {
        let names: Vec<String> = members.iter().map(ToString::to_string).collect();
        show::line(&format!("{table} is merged of {} tables: {}", names.len(), names.join(", ")));
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    let tables = targets.len();
    show::line(&match (errors, warnings) {
        (0, 0) => format!("ready: {tables} tables can be replicated"),
        (0, _) => format!("ready: {tables} tables can be replicated; {warnings} warnings"),
        _ => format!("not ready: {errors} to be mended, {warnings} warnings"),
    });
    Ok(if errors == 0 { Ending::Done } else { Ending::Unmet })
}

/// What `run` does first: errors end it, warnings are logged.
///
/// Tables that were replicated before are not asked about: what has become of one of them stops that table, not the others.
pub(crate) async fn refuse_unmet(settings: &Settings, targets: &Targets, before: &Targets) -> Result<()> {
    let new = targets.keys().filter(|table| !before.contains_key(table));
    let mut errors = Vec::new();
    for finding in source_findings(settings, new).await? {
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

async fn source_findings(settings: &Settings, tables: impl Iterator<Item = &TableName>) -> Result<Vec<Finding>> {
    let tables: Vec<_> = tables.cloned().collect();
    wiring::database(settings)?.check(&tables).await
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
