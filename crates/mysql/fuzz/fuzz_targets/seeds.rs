//! Writes the inputs to begin with: `seeds DIRECTORY` makes a directory for each target in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args_os().nth(1).expect("a directory"));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in calve_mysql::fuzzing::seeds() {
        let count = counts.entry(seed.target).or_default();
        let target = directory.join(seed.target);
        std::fs::create_dir_all(&target)?;
        std::fs::write(target.join(format!("{count:05}")), seed.bytes)?;
        *count += 1;
    }
    println!("{counts:?}");
    Ok(())
}
