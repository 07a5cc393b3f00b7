//! Binary log files of real servers, decoded and compared with what those servers' own SELECT showed. See `README.md`.

mod file;
mod model;
mod mutations;
mod shown;
mod tests;

use std::path::PathBuf;

use super::Flavour;

/// A capture: the file, and what the server said of the tables.
#[derive(Clone, Debug)]
struct Capture {
    /// `mysql-9.7/types_full`.
    name: String,
    flavour: Flavour,
    log: Vec<u8>,
    tables: Vec<shown::Table>,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/binlog/captures")
}

fn capture(name: &str) -> Capture {
    let path = directory().join(name);
    let read = |extension: &str| {
        let path = path.with_file_name(format!("{}.{extension}", path.file_name().unwrap().to_str().unwrap()));
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    Capture {
        name: name.to_owned(),
        flavour: if name.starts_with("mysql") { Flavour::MySql } else { Flavour::MariaDb },
        log: read("binlog"),
        tables: shown::tables(&String::from_utf8(read("tsv")).unwrap()),
    }
}

fn captures() -> Vec<Capture> {
    let mut names = Vec::new();
    for server in ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"] {
        for entry in std::fs::read_dir(directory().join(server)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "binlog") {
                names.push(format!("{server}/{}", path.file_stem().unwrap().to_str().unwrap()));
            }
        }
    }
    names.sort();
    names.iter().map(|name| capture(name)).collect()
}
