//! A table with many commits stays as it was after the first hundred.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use calve_core::Lake;
use iceberg::spec::ManifestContentType;

use super::fixture::{Orders, Scratch, files_under, table};
use crate::IcebergLake;

#[tokio::test]
async fn small_manifests_are_merged_and_keep_their_order() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    // Every commit rewrites one of three keys: a sequence number lost in a merge would double or lose a row.
    let names: Vec<String> = (0..70).map(|i| format!("v{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        let key = i64::try_from(i).unwrap() % 3;
        orders.put(&[(key, name)], &[key]).await;
    }
    let expected: Vec<_> = [(0, "v69"), (1, "v67"), (2, "v68")].map(|(k, n)| (k, n.to_owned())).into();
    assert_eq!(orders.rows().await, expected);
    let manifests = orders.manifests().await;
    assert!(manifests.len() <= 2 * 2 * 8, "{} manifests", manifests.len());
    let files: u32 = manifests
        .iter()
        .filter(|m| m.content == ManifestContentType::Data)
        .map(|m| m.added_files_count.unwrap() + m.existing_files_count.unwrap())
        .sum();
    assert_eq!(files, 70);
    // Readers in the past still see their own.
    let table = orders.as_table().await;
    let tenth = table.metadata().snapshots().find(|s| s.sequence_number() == 10).unwrap();
    let expected: Vec<_> = [(0, "v9"), (1, "v7"), (2, "v8")].map(|(k, n)| (k, n.to_owned())).into();
    assert_eq!(orders.rows_at(tenth.snapshot_id()).await, expected);
}

#[tokio::test]
async fn hundreds_of_commits_leave_metadata_flat_and_no_rubbish() {
    let scratch = Scratch::new();
    let mut settings = scratch.settings();
    settings.retention.max = 40;
    settings.retention.min = 10;
    let mut orders = Orders::create_in(IcebergLake::open(settings.clone()).await.unwrap()).await;
    let mut sizes = Vec::new();
    let mut slowest = Duration::ZERO;
    for i in 0..600_i64 {
        let replace = i % 97 == 96;
        let delta = if replace {
            orders.stage_replace(&[(i, "replaced")]).await
        } else {
            orders.stage(&[(i % 5, "x")], &[i % 5]).await
        };
        let begun = Instant::now();
        orders.commit(vec![delta]).await;
        slowest = slowest.max(begun.elapsed());
        if i % 100 == 99 {
            let metadata = crate::storage::local_path(&orders.version.0).unwrap();
            let snapshots = orders.as_table().await.metadata().snapshots().len();
            sizes.push((orders.manifests().await.len(), metadata.metadata().unwrap().len(), snapshots));
        }
    }
    println!("manifests, bytes of metadata, snapshots: {sizes:?}; slowest commit {slowest:?}");
    for (manifests, bytes, snapshots) in &sizes {
        assert!(*manifests <= 60 && *bytes <= 120_000 && *snapshots <= 40, "{sizes:?}");
    }
    let expected = orders.rows().await;

    // What lies in the directory is what the table refers to.
    let begun = Instant::now();
    let restarted = IcebergLake::open({
        settings.run = uuid::Uuid::new_v4();
        settings
    })
    .await
    .unwrap();
    let unreferenced = restarted.unreferenced_files(&table(), &BTreeSet::new()).await.unwrap();
    println!("looked for left-over files in {:?}", begun.elapsed());
    assert_eq!(unreferenced, Vec::<String>::new());
    let metadata_files =
        files_under(&scratch.0.join("warehouse")).iter().filter(|f| f.ends_with(".metadata.json")).count();
    assert!(metadata_files <= 21, "{metadata_files} metadata files");
    orders.lake = restarted;
    orders.reload().await;
    assert_eq!(orders.rows().await, expected);
}

/// Prints what grows and what does not. `cargo test -p calve-iceberg twenty_thousand_commits_of -- --ignored --nocapture`
#[tokio::test]
#[ignore = "takes minutes; run by hand for its figures"]
async fn twenty_thousand_commits_of_one_table() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    let (mut total, mut slowest) = (Duration::ZERO, Duration::ZERO);
    println!("commits manifests list_bytes metadata_bytes snapshots mean_ms slowest_ms rss_kb");
    for i in 0..20_000_i64 {
        let delta = orders.stage(&[(i % 1_000, "x")], &[i % 1_000]).await;
        let begun = Instant::now();
        orders.commit(vec![delta]).await;
        total += begun.elapsed();
        slowest = slowest.max(begun.elapsed());
        if i % 1_000 == 999 {
            let metadata = crate::storage::local_path(&orders.version.0).unwrap().metadata().unwrap().len();
            let table = orders.as_table().await;
            let list = table.metadata().current_snapshot().unwrap().manifest_list();
            let list = crate::storage::local_path(list).unwrap().metadata().unwrap().len();
            println!(
                "{} {} {list} {metadata} {} {:.1} {:.1} {}",
                i + 1,
                orders.manifests().await.len(),
                table.metadata().snapshots().len(),
                total.as_secs_f64(),
                slowest.as_secs_f64() * 1e3,
                resident_kb(),
            );
            (total, slowest) = (Duration::ZERO, Duration::ZERO);
        }
    }
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kb| kb.parse().ok()).unwrap_or(0)
}
