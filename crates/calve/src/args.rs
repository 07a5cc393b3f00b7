//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{Given, Raw};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  calve itself is wrong: please report it
  2  the configuration, the command line or a precondition: the message says what mends it
  3  the source's log no longer holds what the lake needs: reload the tables named
  4  somebody else works on this pipeline or table
  5  stored bytes are not what was written
  6  something outside is unwell (network, database, disk): try again
  7  verify found differences, or a table that it could not compare
  130, 143  left at once, at a second Ctrl-C or SIGTERM";

/// Replicates Postgres, MySQL and MariaDB tables into Apache Iceberg tables, continuously, exactly once.
///
/// `calve run --source postgres://user@host/shop --table public.orders --into ./lake`
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXIT_CODES, max_term_width = 110, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load the tables, then follow their changes until stopped (Ctrl-C or SIGTERM).
    #[command(after_help = EXIT_CODES)]
    Run {
        #[command(flatten)]
        options: Options,
        /// Load, catch up with the source as it is at the start, and leave.
        #[arg(long)]
        once: bool,
    },
    /// Read tables again and replace them in one commit; also the way back for a table that stopped.
    Reload {
        /// Tables to read again, as schema.table.
        #[arg(id = "reloaded", required_unless_present = "all", value_name = "TABLE")]
        tables: Vec<String>,
        /// Read all of the pipeline's tables again.
        #[arg(long, conflicts_with = "reloaded")]
        all: bool,
        /// The configuration file.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        flags: Flags,
    },
    /// Look for everything that would keep the pipeline from running, each with the statement that mends it.
    Check {
        #[command(flatten)]
        options: Options,
    },
    /// Show where every table stands. Works beside a running calve and without one.
    Status {
        #[command(flatten)]
        options: Options,
        /// Machine-readable; the format is documented in README.md.
        #[arg(long)]
        json: bool,
    },
    /// Compare source and tables row by row. Works while both change.
    Verify {
        #[command(flatten)]
        options: Options,
        /// Differing keys to show for each table.
        #[arg(long, value_name = "N", default_value_t = 20)]
        show: usize,
        /// How long to wait for the tables to pass what is in flight before it is reported, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 120)]
        wait: u64,
    },
    /// Remove the pipeline: its slot, publication and local state. The tables stay unless asked for.
    Drop {
        #[command(flatten)]
        options: Options,
        /// Also remove the tables and their files from the lake.
        #[arg(id = "drop_tables", long = "tables")]
        tables: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// A configuration file and flags.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The configuration file (YAML). Flags win over it.
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

/// Options as flags. Each is explained under its name in README.md.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// The database. Other users of the machine can see a password given here: prefer PGPASSWORD, ~/.pgpass, the file, or
    /// the variable `CALVE_SOURCE`.
    #[arg(long, value_name = "URL", env = "CALVE_SOURCE", hide_env_values = true)]
    source: Option<String>,
    /// A table, as schema.table; `*` stands for any text. Repeatable.
    #[arg(long = "table", value_name = "PATTERN")]
    tables: Vec<String>,
    /// Tables to leave out. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// The lake's directory; made where it is missing.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Names the pipeline: its slot, publication and state. Default: the database's name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The namespace of all tables in the lake. Default: each table's schema.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The catalog: `sqlite`, `sqlite://PATH` or `postgres://...` Default: `catalog.db` in the lake's directory.
    #[arg(long, value_name = "CATALOG", env = "CALVE_CATALOG", hide_env_values = true)]
    catalog: Option<String>,
    /// Where the tables' files lie. Default: `warehouse` in the lake's directory.
    #[arg(long, value_name = "DIR")]
    warehouse: Option<PathBuf>,
    /// The replication slot. Default: `calve_<name>`.
    #[arg(long, value_name = "SLOT")]
    slot: Option<String>,
    /// The publication. Default: `calve_<name>`.
    #[arg(long, value_name = "PUBLICATION")]
    publication: Option<String>,
    /// The most memory that calve is meant to use. Default: 512MB.
    #[arg(long, value_name = "BYTES")]
    memory: Option<String>,
    /// Commit at least this often while rows arrive. Default: 10s.
    #[arg(long, value_name = "DURATION")]
    checkpoint_interval: Option<String>,
    /// Commit after this many rows. Default: 1,000,000.
    #[arg(long, value_name = "ROWS")]
    checkpoint_rows: Option<String>,
    /// Commit after this much row memory. Default: 64MiB, or less where `memory` is less.
    #[arg(long, value_name = "BYTES")]
    checkpoint_bytes: Option<String>,
    /// What is logged: error, warn, info, debug or trace. Default: info.
    #[arg(long, value_name = "LEVEL", env = "CALVE_LOG")]
    log_level: Option<String>,
    /// How: human, json, or auto (human on a terminal). Default: auto.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl Options {
    pub(crate) fn into_given(self) -> Given {
        Given { flags: self.flags.into_raw(), file: self.config }
    }
}

impl Flags {
    pub(crate) fn into_given(self, file: Option<PathBuf>) -> Given {
        Given { flags: self.into_raw(), file }
    }

    fn into_raw(self) -> Raw {
        let path = |path: Option<PathBuf>| path.map(|path| path.to_string_lossy().into_owned());
        let mut raw = Raw::default();
        raw.set_flag("source", "--source", self.source);
        raw.set_table_flags("tables", "--table", self.tables);
        raw.set_table_flags("exclude", "--exclude", self.exclude);
        raw.set_flag("into", "--into", path(self.into));
        raw.set_flag("name", "--name", self.name);
        raw.set_flag("namespace", "--namespace", self.namespace);
        raw.set_flag("catalog", "--catalog", self.catalog);
        raw.set_flag("warehouse", "--warehouse", path(self.warehouse));
        raw.set_flag("slot", "--slot", self.slot);
        raw.set_flag("publication", "--publication", self.publication);
        raw.set_flag("checkpoint.interval", "--checkpoint-interval", self.checkpoint_interval);
        raw.set_flag("checkpoint.rows", "--checkpoint-rows", self.checkpoint_rows);
        raw.set_flag("memory", "--memory", self.memory);
        raw.set_flag("checkpoint.bytes", "--checkpoint-bytes", self.checkpoint_bytes);
        raw.set_flag("log.level", "--log-level", self.log_level);
        raw.set_flag("log.format", "--log-format", self.log_format);
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
