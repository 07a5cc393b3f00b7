//! Another writer of the lake's tables: pyiceberg, through the lake's own catalog.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use calve_testkit::readers::Reader;

use crate::lake::Lake;

/// Has pyiceberg change a table: see `integration/writers/foreign.py` for the actions. Returns the id of the snapshot
/// that is current afterwards.
pub fn change(lake: &Lake, namespace: &str, table: &str, action: &[&str]) -> anyhow::Result<i64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("writers/foreign.py");
    let done = Command::new(python()?)
        .arg(script)
        .arg(lake.catalog())
        .args([namespace, table])
        .args(action)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .context("running pyiceberg")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "pyiceberg cannot {action:?} on {namespace}.{table}: {said}");
    let printed = String::from_utf8_lossy(&done.stdout);
    printed.trim().parse().with_context(|| format!("pyiceberg printed {printed:?}"))
}

/// The interpreter of the readers' environment.
fn python() -> anyhow::Result<PathBuf> {
    let setup = Path::new(env!("CARGO_MANIFEST_DIR")).join("readers/setup.sh");
    let made = Command::new(&setup).output().with_context(|| format!("running {}", setup.display()))?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(Path::new(String::from_utf8_lossy(&made.stdout).trim()).join("bin/python"))
}

/// Holds the catalog's write lock, as a hanging writer would, until it goes.
#[derive(Debug)]
pub struct CatalogLock {
    process: std::process::Child,
}

impl CatalogLock {
    /// Takes the lock; returns once it is held.
    pub fn hold(lake: &Lake) -> anyhow::Result<Self> {
        use std::io::Read;
        let program = "import sqlite3, sys\n\
                       connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)\n\
                       connection.execute('begin exclusive')\n\
                       print('held', flush=True)\n\
                       sys.stdin.read()";
        let mut process = Command::new("python3")
            .args(["-c", program])
            .arg(lake.catalog())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .context("running python3")?;
        let mut answer = [0; 4];
        let heard = process.stdout.as_mut().context("python3 has no output")?.read_exact(&mut answer);
        let lock = Self { process };
        heard.context("the catalog could not be locked")?;
        Ok(lock)
    }
}

impl Drop for CatalogLock {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Has the catalog refuse every commit, each with an error, until it goes.
#[derive(Debug)]
pub struct CatalogRefusal {
    catalog: PathBuf,
}

impl CatalogRefusal {
    /// What the catalog says when it refuses.
    pub const SAYS: &str = "no commit for now";

    /// From now on.
    pub fn begin(lake: &Lake) -> anyhow::Result<Self> {
        let refusal = Self { catalog: lake.catalog() };
        let says = Self::SAYS;
        refusal.run(&format!(
            "create trigger refusal before update on iceberg_tables begin select raise(abort, '{says}'); end"
        ))?;
        Ok(refusal)
    }

    fn run(&self, sql: &str) -> anyhow::Result<()> {
        let program = "import sqlite3, sys\n\
                       with sqlite3.connect(sys.argv[1], timeout=30) as connection:\n\
                       \x20   connection.execute(sys.argv[2])";
        let done = Command::new("python3").args(["-c", program]).arg(&self.catalog).arg(sql).output();
        let done = done.context("running python3")?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    }
}

impl Drop for CatalogRefusal {
    fn drop(&mut self) {
        // Where it stays, the test that waits for a commit says so.
        let _ = self.run("drop trigger refusal");
    }
}

/// Has Spark rewrite all files of a table into one, deletes applied. Spark has no driver for the lake's catalog, so it
/// works on the table as one of a Hadoop catalog, whose layout the warehouse happens to have, and what it made is then put
/// into the lake's catalog, by compare and swap.
pub fn compact(lake: &Lake, namespace: &str, table: &str) -> anyhow::Result<()> {
    // Spark asks for a catalog's settings once, so that each needs a name of its own.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let before = lake.metadata_file(namespace, table)?;
    let directory = before.parent().context("a metadata file lies in a directory")?;
    fs::copy(&before, directory.join("v1.metadata.json"))?;
    fs::write(directory.join("version-hint.text"), "1")?;
    let warehouse = directory.ancestors().nth(3).context("a warehouse holds namespaces")?;
    let catalog = format!("foreign_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    crate::readers::spark(|spark| {
        for sql in [
            format!("set spark.sql.catalog.{catalog} = org.apache.iceberg.spark.SparkCatalog"),
            format!("set spark.sql.catalog.{catalog}.type = hadoop"),
            format!("set spark.sql.catalog.{catalog}.warehouse = file://{}", warehouse.display()),
            format!(
                "call {catalog}.system.rewrite_data_files(table => '{namespace}.{table}', \
                 options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
            ),
        ] {
            spark.query(&[], &sql).with_context(|| sql.clone())?;
        }
        Ok(())
    })?;
    let version: u32 = fs::read_to_string(directory.join("version-hint.text"))?.trim().parse()?;
    ensure!(version > 1, "Spark committed nothing");
    let after = directory.join(format!("90000-00000000-0000-4000-8000-{:012x}.metadata.json", std::process::id()));
    fs::copy(directory.join(format!("v{version}.metadata.json")), &after)?;
    swap(lake, namespace, table, &after)
}

/// Points the catalog at another metadata file.
fn swap(lake: &Lake, namespace: &str, table: &str, after: &Path) -> anyhow::Result<()> {
    let program = "import sqlite3, sys\n\
                   with sqlite3.connect(sys.argv[1], timeout=30) as connection:\n\
                   \x20   changed = connection.execute('update iceberg_tables set metadata_location = ?, '\n\
                   \x20       'previous_metadata_location = metadata_location where metadata_location = ?', (sys.argv[3], sys.argv[2])).rowcount\n\
                   sys.exit(0 if changed == 1 else f'{changed} tables at {sys.argv[2]}')";
    let before = crate::readers::duckdb(|duckdb| Ok(duckdb.locate(&lake.catalog(), namespace, table)?))?;
    let after = match before.strip_prefix("file://") {
        Some(_) => format!("file://{}", after.display()),
        None => after.display().to_string(),
    };
    let done = Command::new("python3")
        .args(["-c", program])
        .arg(lake.catalog())
        .args([before, after])
        .output()
        .context("running python3")?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}
