//! The arrows between crates, the walls around heavy dependencies, and the rules for what is built in, held by
//! `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

fn metadata(arguments: &[&str]) -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--manifest-path", manifest])
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// The platform that tests are built for: packages of others need not be on this machine.
fn host() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let version = String::from_utf8(output.stdout).expect("rustc prints UTF-8");
    version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Normal and build dependencies of every member of the workspace; those of tests do not ship.
fn shipped_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata(&["--no-deps"]);
    list(&metadata["packages"])
        .map(|package| {
            let shipped = list(&package["dependencies"]).filter(|dependency| text(dependency, "kind") != "dev");
            (text(package, "name").to_owned(), shipped.map(|dependency| text(dependency, "name").to_owned()).collect())
        })
        .collect()
}

#[test]
fn crates_depend_in_the_direction_of_the_flow_only() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("calve-core", &[][..]),
        ("calve-spool", &[]),
        ("calve-postgres", &["calve-core", "calve-spool"]),
        ("calve-mysql", &["calve-core", "calve-spool"]),
        ("calve-engine", &["calve-core"]),
        ("calve-iceberg", &["calve-core"]),
        ("calve-positions", &["calve-core"]),
        ("calve", &["calve-core", "calve-engine", "calve-iceberg", "calve-mysql", "calve-positions", "calve-postgres"]),
        ("calve-testkit", &["calve-core", "calve-engine"]),
        ("calve-integration", &["calve-testkit"]),
    ]);
    let found = shipped_dependencies();
    assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), allowed.keys().copied().collect::<Vec<_>>());
    for (name, dependencies) in &found {
        let own = dependencies.iter().filter(|dependency| found.contains_key(*dependency));
        for dependency in own {
            assert!(allowed[name.as_str()].contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn each_heavy_dependency_stays_behind_its_wall() {
    let walls = [
        ("tokio-postgres", &["calve-postgres", "calve-integration"][..]),
        ("postgres-protocol", &["calve-postgres"]),
        ("mysql_async", &["calve-mysql", "calve-integration"]),
        ("sled", &["calve-positions"]),
        ("iceberg", &["calve-iceberg"]),
        ("iceberg-catalog-sql", &["calve-iceberg"]),
        // The benchmarks hold calve against a bare encoder.
        ("parquet", &["calve-iceberg", "calve-integration"]),
        ("sqlx", &["calve-iceberg"]),
        ("clap", &["calve"]),
        ("anyhow", &["calve", "calve-integration"]),
    ];
    let found = shipped_dependencies();
    for (dependency, inside) in walls {
        for (name, dependencies) in &found {
            let outside = !inside.contains(&name.as_str());
            assert!(!(outside && dependencies.contains(dependency)), "{name} must not know {dependency}");
        }
    }
    let core = &found["calve-core"];
    for io in ["tokio", "futures", "tracing"] {
        assert!(!core.contains(io), "calve-core does no I/O, yet it depends on {io}");
    }
}

/// Every package that is compiled, with its licence, source and name.
#[test]
fn what_is_built_in_has_a_known_licence_and_a_known_source() {
    const LICENCES: [&str; 14] = [
        "Apache-2.0",
        "MIT",
        "MIT-0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "Zlib",
        "0BSD",
        "CC0-1.0",
        "Unicode-3.0",
        "Unlicense",
        "BSL-1.0",
        "CDLA-Permissive-2.0",
        "Apache-2.0 WITH LLVM-exception",
    ];
    const BANNED: [&str; 7] =
        ["openssl", "openssl-sys", "native-tls", "aws-lc-rs", "aws-lc-sys", "datafusion", "mysqlclient-sys"];
    let metadata = metadata(&["--filter-platform", &host()]);
    for package in list(&metadata["packages"]) {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        assert!(!BANNED.contains(&name), "{name} must not be built in");
        let source = &package["source"];
        let registry =
            source.as_str().is_some_and(|source| source.starts_with("registry+") || source.starts_with("sparse+"));
        assert!(source.is_null() || registry, "{name} comes from {source}, not from a registry");
        let acceptable = licence.replace('/', " OR ").split(" OR ").any(|choice| {
            let all = choice.trim().trim_matches(['(', ')']);
            LICENCES.contains(&all)
                || all.split(" AND ").all(|part| LICENCES.contains(&part.trim().trim_matches(['(', ')'])))
        });
        assert!(acceptable, "{name} is under '{licence}', which nobody has looked at");
    }
}

#[test]
fn nothing_made_for_tests_is_on_by_default() {
    let metadata = metadata(&["--no-deps"]);
    for package in list(&metadata["packages"]) {
        let default = &package["features"]["default"];
        assert!(list(default).next().is_none(), "{} turns {default} on by default", text(package, "name"));
    }
}
