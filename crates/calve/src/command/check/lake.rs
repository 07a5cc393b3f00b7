//! What stands in the way on the lake's side: its directory, its disk, its catalog, and who owns its tables.

use std::path::{Path, PathBuf};

use calve_core::{ErrorKind, Finding, Lake, Severity, TableSchema};
use rustix::fs::{Access, access, statvfs};

use crate::config::Settings;
use crate::ending::with_causes;
use crate::show;
use crate::wiring::{self, Targets};

/// Less than this is worth a word: a load writes everything once more.
const LOW_DISK_BYTES: u64 = 10 << 30;

/// Nothing is made or changed.
pub(super) async fn findings(settings: &Settings, targets: &Targets) -> Vec<Finding> {
    let mut findings = Vec::new();
    for directory in [&settings.into, &settings.warehouse] {
        findings.extend(directory_finding(directory));
    }
    findings.dedup();
    match wiring::existing_lake(settings, targets).await {
        Ok(None) => {}
        Ok(Some(lake)) => {
            for table in targets.keys() {
                match lake.load(table).await {
                    Ok(found) => {
                        let stamp = found.and_then(|found| found.stamp);
                        findings.extend(stamp.iter().flat_map(|stamp| unapplied(settings, &stamp.schema)));
                    }
                    Err(error) if error.kind() == ErrorKind::Config => {
                        findings.push(from_message(&with_causes(&error)));
                    }
                    // Whatever is wrong with the catalog is wrong for every table.
                    Err(error) => {
                        findings.push(from_message(&with_causes(&error)));
                        break;
                    }
                }
            }
        }
        Err(error) => findings.push(from_message(&with_causes(&error))),
    }
    findings
}

/// What the configuration says of a table that stands, and counts when it is read again.
fn unapplied(settings: &Settings, schema: &TableSchema) -> Vec<Finding> {
    let (rules, table) = (settings.tables.rules(), &schema.table);
    let mode = rules.unapplied_mode(schema).map(|mode| format!("its mode is to be {mode} (it is {})", schema.mode));
    let types = rules.unapplied(schema).into_iter().map(|(column, ty)| format!("column {column} is to be {ty}"));
    let all = mode.into_iter().chain(types).chain(rules.unapplied_excerpt(schema));
    let finding = |what| {
        let what = format!("the configuration says of table {table}, once it is read again: {what}");
        Finding::warning(what, format!("calve reload {table}"))
    };
    all.map(finding).collect()
}

fn directory_finding(directory: &Path) -> Option<Finding> {
    let existing = nearest_existing(directory);
    if !existing.is_dir() {
        return Some(Finding {
            severity: Severity::Error,
            what: format!("{} is in the way of the lake's directory {}", existing.display(), directory.display()),
            remedy: "move it, or choose another directory with --into".to_owned(),
        });
    }
    if access(existing.as_os_str().as_encoded_bytes(), Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Some(Finding {
            severity: Severity::Error,
            what: format!("the directory {} cannot be written by this user", existing.display()),
            remedy: "change its owner or mode, or choose another with --into".to_owned(),
        });
    }
    let disk = statvfs(existing.as_os_str().as_encoded_bytes()).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    (free < LOW_DISK_BYTES).then(|| Finding {
        severity: Severity::Warning,
        what: format!("the disk of {} has {} left", existing.display(), show::bytes(free)),
        remedy: "make room, or choose another directory with --into".to_owned(),
    })
}

/// The directory itself, or the part of its path that is there already.
fn nearest_existing(directory: &Path) -> PathBuf {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    absolute.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}

/// An error says what is wrong and, after a colon or semicolon, what mends it.
fn from_message(message: &str) -> Finding {
    let (what, remedy) =
        message.split_once(": ").or_else(|| message.split_once("; ")).unwrap_or((message, "see above"));
    Finding { severity: Severity::Error, what: what.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_dir::TestDir;

    #[test]
    fn a_directory_that_can_be_made_is_fine_and_a_file_in_its_way_is_not() {
        let dir = TestDir::new("check-lake");
        let error = |path: &Path| directory_finding(path).filter(|finding| finding.severity == Severity::Error);
        assert_eq!(error(&dir.path().join("a/b")), None);
        std::fs::write(dir.path().join("file"), "").unwrap();
        let finding = error(&dir.path().join("file/lake")).unwrap();
        assert!(finding.what.contains("is in the way"), "{finding}");
    }
}
