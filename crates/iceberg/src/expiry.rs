//! Expiry: which snapshots a commit lets go, and which files only they referred to.
//!
//! Snapshots go in small batches, so that no commit has much to remove. The files are removed after the commit is
//! confirmed; a crash in between leaves them, and a later run finds those of calve by their names.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use calve_core::Result;
use iceberg::TableUpdate;
use iceberg::spec::{MAIN_BRANCH, ManifestFile, ManifestStatus, SnapshotRef, TableMetadata};

use crate::catalog::TableAt;
use crate::failpoint;
use crate::lake::{IcebergLake, KnownTable, TableSlot};
use crate::manifests::{read_list, read_manifest};
use crate::settings::SnapshotRetentionSettings;
use crate::stamp;

/// Iceberg's own switch: whether files of the table may be removed at all.
const GC_ENABLED: &str = "gc.enabled";
/// Set by a cherry-pick, after which files may be in use under another snapshot than the one that added them.
const CHERRY_PICKED: &str = "source-snapshot-id";

/// Snapshots of `base` to expire in a commit that adds `added` snapshots to the main branch, the last of them stamped.
pub(crate) fn expired(base: &TableAt, added: usize, retention: &SnapshotRetentionSettings, now_ms: i64) -> Vec<i64> {
    if base.metadata.properties().get(GC_ENABLED).is_some_and(|on| on.eq_ignore_ascii_case("false")) {
        return Vec::new();
    }
    let named: HashSet<i64> =
        base.refs.iter().filter(|(name, _)| *name != MAIN_BRANCH).map(|(_, reference)| reference.snapshot_id).collect();
    let mut snapshots: Vec<_> = base.metadata.snapshots().collect();
    snapshots.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.sequence_number()));

    let max = retention.max.max(1);
    let min = retention.min.clamp(1, max);
    let batch = (max / 100).clamp(1, 10);
    let age = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
    // Down to a batch below the limit, so that the next batch of commits expires nothing.
    let limit = if added + snapshots.len() > max { max.saturating_sub(batch).max(min) } else { usize::MAX };

    let (mut surplus, mut aged, mut overdue) = (Vec::new(), Vec::new(), false);
    for (rank, snapshot) in (added..).zip(snapshots) {
        if named.contains(&snapshot.snapshot_id()) || rank < min {
            continue;
        }
        if rank >= limit {
            surplus.push(snapshot.snapshot_id());
        } else if now_ms.saturating_sub(snapshot.timestamp_ms()) > age {
            aged.push(snapshot.snapshot_id());
            overdue |= now_ms.saturating_sub(snapshot.timestamp_ms()) > age.saturating_add(age / 4);
        }
    }
    if overdue || aged.len() >= batch || !surplus.is_empty() {
        surplus.append(&mut aged);
    }
    surplus
}

/// The updates that expire snapshots.
pub(crate) fn updates(metadata: &TableMetadata, expired: &[i64]) -> Vec<TableUpdate> {
    if expired.is_empty() {
        return Vec::new();
    }
    let mut updates = Vec::new();
    for &snapshot_id in expired {
        if metadata.statistics_for_snapshot(snapshot_id).is_some() {
            updates.push(TableUpdate::RemoveStatistics { snapshot_id });
        }
        if metadata.partition_statistics_for_snapshot(snapshot_id).is_some() {
            updates.push(TableUpdate::RemovePartitionStatistics { snapshot_id });
        }
    }
    updates.push(TableUpdate::RemoveSnapshots { snapshot_ids: expired.to_vec() });
    updates
}

impl IcebergLake {
    /// Removes what only the `expired` snapshots of `before` referred to. The commit that expired them stands.
    pub(crate) async fn remove_expired(
        &self,
        slot: &TableSlot,
        before: &TableMetadata,
        after: &KnownTable,
        expired: &[i64],
    ) {
        match self.garbage(slot, before, after, expired).await {
            Ok(files) => {
                failpoint::hit("expire.before-delete");
                self.remove_files(slot, &files).await;
            }
            Err(error) => {
                tracing::warn!(table = %slot.source, %error, "files of expired snapshots were not removed this time");
            }
        }
    }

    /// Removes metadata files that fell out of the table's log.
    pub(crate) async fn remove_old_metadata(&self, slot: &TableSlot, metadata: &TableMetadata, files: &[String]) {
        let within = format!("{}/metadata/", metadata.location());
        let ours: Vec<String> = files.iter().filter(|file| file.starts_with(&within)).cloned().collect();
        self.remove_files(slot, &ours).await;
    }

    async fn garbage(
        &self,
        slot: &TableSlot,
        before: &TableMetadata,
        after: &KnownTable,
        expired: &[i64],
    ) -> Result<Vec<String>> {
        let expired: HashSet<i64> = expired.iter().copied().collect();
        let gone: Vec<&SnapshotRef> = expired.iter().filter_map(|id| before.snapshot_by_id(*id)).collect();
        let mut files: BTreeSet<String> = BTreeSet::new();
        let mut manifests: BTreeMap<String, ManifestFile> = BTreeMap::new();
        let mut deletions: Vec<(i64, ManifestFile)> = Vec::new();
        let deleters = deleters(before, &after.at.metadata, &expired);
        for snapshot in gone {
            files.insert(snapshot.manifest_list().to_owned());
            if let Some(statistics) = before.statistics_for_snapshot(snapshot.snapshot_id()) {
                files.insert(statistics.statistics_path.clone());
            }
            if let Some(statistics) = before.partition_statistics_for_snapshot(snapshot.snapshot_id()) {
                files.insert(statistics.statistics_path.clone());
            }
            for manifest in read_list(&slot.source, &self.io, snapshot).await? {
                let by = manifest.added_snapshot_id;
                if by == snapshot.snapshot_id() && deleters.contains(&by) && manifest.has_deleted_files() {
                    deletions.push((by, manifest.clone()));
                }
                manifests.insert(manifest.manifest_path.clone(), manifest);
            }
        }
        for snapshot in protecting(before, &after.at, &expired) {
            let listed = match (&after.manifests, after.at.metadata.current_snapshot_id()) {
                (Some(current), Some(id)) if id == snapshot.snapshot_id() => (**current).clone(),
                _ => read_list(&slot.source, &self.io, snapshot).await?,
            };
            for manifest in listed {
                manifests.remove(&manifest.manifest_path);
            }
        }
        // Data and delete files that a snapshot took away go with it.
        let within = format!("{}/", before.location());
        for (by, manifest) in deletions {
            for entry in read_manifest(&slot.source, &self.io, &manifest).await?.entries() {
                if entry.status() == ManifestStatus::Deleted
                    && entry.snapshot_id == Some(by)
                    && entry.file_path().starts_with(&within)
                {
                    files.insert(entry.file_path().to_owned());
                }
            }
        }
        files.extend(manifests.into_keys());
        Ok(files.into_iter().collect())
    }
}

/// Kept snapshots whose lists, taken together, name every manifest that any kept snapshot shares with an expired one.
///
/// A snapshot of calve lists manifests of its parent and new ones. So a shared manifest is listed by every snapshot on the
/// way between the two, among them the oldest kept ones (their parents are gone), the last kept ancestors of expired ones,
/// and, since others may list what they like, all snapshots of others.
pub(crate) fn protecting<'a>(
    before: &TableMetadata,
    after: &'a TableAt,
    expired: &HashSet<i64>,
) -> Vec<&'a SnapshotRef> {
    let kept = &after.metadata;
    let mut chosen: BTreeSet<i64> = after.refs.values().map(|reference| reference.snapshot_id).collect();
    for snapshot in kept.snapshots() {
        let parent_is_kept = snapshot.parent_snapshot_id().is_some_and(|parent| kept.snapshot_by_id(parent).is_some());
        if !parent_is_kept || !stamp::is_ours(snapshot) {
            chosen.insert(snapshot.snapshot_id());
        }
    }
    for id in expired {
        let mut next = before.snapshot_by_id(*id).and_then(|snapshot| snapshot.parent_snapshot_id());
        // Parents are not checked by anybody; a circle must not hold us.
        for _ in 0..=before.snapshots().len() {
            let Some(id) = next else { break };
            if kept.snapshot_by_id(id).is_some() {
                chosen.insert(id);
                break;
            }
            next = before.snapshot_by_id(id).and_then(|snapshot| snapshot.parent_snapshot_id());
        }
    }
    chosen.into_iter().filter_map(|id| kept.snapshot_by_id(id)).collect()
}

/// Expired snapshots such that every kept one comes after them on the main branch: what they took away nobody sees.
fn deleters(before: &TableMetadata, after: &TableMetadata, expired: &HashSet<i64>) -> HashSet<i64> {
    let picked = |snapshot: &SnapshotRef| snapshot.summary().additional_properties.contains_key(CHERRY_PICKED);
    if before.snapshots().chain(after.snapshots()).any(picked) {
        return HashSet::new();
    }
    let parent = |id: i64| {
        let snapshot = after.snapshot_by_id(id).or_else(|| before.snapshot_by_id(id));
        snapshot.and_then(|snapshot| snapshot.parent_snapshot_id())
    };
    let mut branch = HashSet::new();
    let mut next = after.current_snapshot_id();
    while let Some(id) = next
        && branch.insert(id)
    {
        next = parent(id);
    }
    if after.snapshots().any(|snapshot| !branch.contains(&snapshot.snapshot_id())) {
        return HashSet::new();
    }
    let oldest_kept = after.snapshots().map(|snapshot| snapshot.sequence_number()).min().unwrap_or(i64::MAX);
    let older = |id: &i64| before.snapshot_by_id(*id).is_some_and(|s| s.sequence_number() < oldest_kept);
    expired.iter().copied().filter(|id| branch.contains(id)).filter(older).collect()
}
