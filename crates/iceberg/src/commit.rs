//! The commit: staged deltas become snapshots, the stamp and the marks become properties, and one swap in the catalog
//! makes all of it visible or none.

use std::collections::HashMap;
use std::sync::Arc;

use calve_core::{CommitReceipt, Error, ErrorKind, LakeVersion, Result, TableCommit};
use iceberg::spec::{
    MAIN_BRANCH, ManifestContentType, ManifestFile, Schema, SnapshotReference, SnapshotRetention, TableMetadata,
};
use iceberg::{TableRequirement, TableUpdate};

use crate::catalog::CommitError;
use crate::delta::{self, DeltaBody, StagedManifest, StagedSchema};
use crate::expiry;
use crate::failpoint;
use crate::lake::{IcebergLake, KnownTable, TableSlot};
use crate::manifests::{self, ManifestStore, is_live};
use crate::placement;
use crate::schema;
use crate::snapshot::{Chain, Change, now_ms};
use crate::stamp::{self, Marks, PropertyChanges};

/// Everything a commit asks the catalog for.
#[derive(Default)]
struct Draft {
    updates: Vec<TableUpdate>,
    /// The chain's end and the manifests it lists; None for a commit of properties only.
    chain: Option<Chain>,
    /// Snapshots that the commit expires.
    expired: Vec<i64>,
}

impl IcebergLake {
    pub(crate) async fn commit_table(
        &self,
        slot: &TableSlot,
        version: &LakeVersion,
        commit: &TableCommit,
    ) -> Result<CommitReceipt> {
        let _committing = slot.committing.lock().await;
        let base = self.base(slot, version).await?;
        let mut store = ManifestStore {
            table: &slot.source,
            io: &self.io,
            naming: &self.naming,
            metadata: &base.at.metadata,
            written: Vec::new(),
        };
        let outcome = match self.draft(slot, &base, commit, &mut store).await {
            Ok(draft) if draft.updates.is_empty() => return Ok(receipt(&base, commit)),
            Ok(draft) => {
                failpoint::hit("commit.manifests-written");
                self.send(slot, &base, draft).await
            }
            Err(error) => Err(CommitError::Lost(error)),
        };
        match outcome {
            Ok(known) => Ok(receipt(&known, commit)),
            Err(CommitError::Lost(error)) => {
                self.remove_files(slot, &store.written).await;
                Err(error)
            }
            // The files may be in use by now or soon; a later run finds them by their names if they are not.
            Err(CommitError::Unknown(error)) => Err(error),
        }
    }

    /// The state the commit is meant for.
    async fn base(&self, slot: &TableSlot, version: &LakeVersion) -> Result<Arc<KnownTable>> {
        let known = match slot.known() {
            Some(known) if known.at.location == version.0 => Some(known),
            _ => self.read(slot).await?,
        };
        match known {
            Some(known) if known.at.location == version.0 => Ok(known),
            Some(known) => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "table {} was changed by another process: it stands at {}, not at {}",
                    slot.ident, known.at.location, version.0
                ),
            )),
            None => Err(Error::new(ErrorKind::Conflict, format!("table {} was dropped from the catalog", slot.ident))),
        }
    }

    async fn draft(
        &self,
        slot: &TableSlot,
        base: &Arc<KnownTable>,
        commit: &TableCommit,
        store: &mut ManifestStore<'_>,
    ) -> Result<Draft> {
        let mut draft = Draft::default();
        if let Some(stamp) = &commit.stamp {
            self.add_snapshots(slot, base, commit, store, &mut draft).await?;
            let added = draft.updates.iter().filter(|u| matches!(u, TableUpdate::AddSnapshot { .. })).count();
            draft.expired = expiry::expired(&base.at, added, &self.retention, now_ms());
            draft.updates.extend(expiry::updates(&base.at.metadata, &draft.expired));
            if stamp.schema.table != slot.source {
                return Err(Error::new(
                    ErrorKind::Bug,
                    format!("a commit for table {} carries the stamp of {}", slot.source, stamp.schema.table),
                ));
            }
        } else if !commit.deltas.is_empty() {
            return Err(Error::new(
                ErrorKind::Bug,
                format!("a commit for table {} has rows and no stamp", slot.source),
            ));
        }
        let changes = property_changes(slot, &base.marks, commit)?;
        if !changes.set.is_empty() {
            draft.updates.push(TableUpdate::SetProperties { updates: changes.set });
        }
        if !changes.remove.is_empty() {
            draft.updates.push(TableUpdate::RemoveProperties { removals: changes.remove.into_iter().collect() });
        }
        Ok(draft)
    }

    async fn add_snapshots(
        &self,
        slot: &TableSlot,
        base: &Arc<KnownTable>,
        commit: &TableCommit,
        store: &mut ManifestStore<'_>,
        draft: &mut Draft,
    ) -> Result<()> {
        let metadata = &base.at.metadata;
        let base_manifests = match (&base.manifests, metadata.current_snapshot()) {
            (Some(manifests), _) => (**manifests).clone(),
            (None, Some(snapshot)) => manifests::read_list(&slot.source, &self.io, snapshot).await?,
            (None, None) => Vec::new(),
        };
        let mut chain = Chain::new(metadata, base_manifests);
        let mut steps = TableSteps { slot, base: metadata, metadata: (**metadata).clone() };
        // A stamp without rows still makes a snapshot, which carries the position.
        let snapshots = commit.deltas.len().max(1);
        for index in 0..snapshots {
            let body = match commit.deltas.get(index) {
                Some(delta) => Some((delta.replace, delta::body(&slot.source, delta)?)),
                None => None,
            };
            if let Some((replace, body)) = &body {
                draft.updates.extend(steps.accept(body)?);
                if !replace {
                    check_reach(slot, body, chain.manifests())?;
                }
            }
            let mut change = Change::of(Arc::clone(steps.metadata.current_schema()));
            if let Some((replace, body)) = &body {
                change.replace = *replace;
                change.manifests = &body.manifests;
                change.spec_id = body.spec_id;
                change.added = body.added;
            }
            self.mark_summary(commit, index + 1, snapshots, &mut change.summary)?;
            let snapshot = chain.add(change, store).await?;
            draft.updates.push(TableUpdate::AddSnapshot { snapshot });
        }
        if let Some(head) = chain.head() {
            // Moving the branch keeps the retention that somebody gave it.
            let main = base.at.refs.get(MAIN_BRANCH);
            let retention =
                main.map_or_else(|| SnapshotRetention::branch(None, None, None), |main| main.retention.clone());
            draft.updates.push(TableUpdate::SetSnapshotRef {
                ref_name: MAIN_BRANCH.to_owned(),
                reference: SnapshotReference::new(head, retention),
            });
        }
        draft.chain = Some(chain);
        Ok(())
    }

    /// The last snapshot of a commit carries the stamp; those before it say which part they are.
    fn mark_summary(
        &self,
        commit: &TableCommit,
        part: usize,
        of: usize,
        summary: &mut HashMap<String, String>,
    ) -> Result<()> {
        let pipeline = self.naming.pipeline();
        if part < of {
            stamp::part_summary(pipeline, part, of, summary);
            return Ok(());
        }
        if let Some(stamp) = &commit.stamp {
            stamp::stamp_summary(pipeline, stamp, summary)?;
        }
        if let Some(complete_to) = &commit.complete_to {
            stamp::complete_to_summary(complete_to, summary);
        }
        Ok(())
    }

    async fn send(
        &self,
        slot: &TableSlot,
        base: &Arc<KnownTable>,
        draft: Draft,
    ) -> std::result::Result<Arc<KnownTable>, CommitError> {
        let requirements = requirements(&base.at.metadata, &draft.updates);
        let committed = self.catalog.commit(&slot.ident, &base.at, &requirements, draft.updates).await?;
        // From here on the commit is done, whatever happens to the rest.
        let manifests = match draft.chain {
            Some(chain) => Some(Arc::new(chain.into_manifests())),
            None => base.manifests.clone(),
        };
        let marks = Marks::read(committed.at.metadata.properties(), &slot.source).map_err(CommitError::Unknown)?;
        let known = Arc::new(KnownTable { at: committed.at, marks, manifests });
        slot.remember(Some(Arc::clone(&known)));
        self.remove_old_metadata(slot, &known.at.metadata, &committed.old_metadata).await;
        if !draft.expired.is_empty() {
            self.remove_expired(slot, &base.at.metadata, &known, &draft.expired).await;
        }
        Ok(known)
    }

    /// Removes files that nothing refers to. What cannot be removed now is found by its name in a later run.
    pub(crate) async fn remove_files(&self, slot: &TableSlot, files: &[String]) -> usize {
        let mut removed = 0;
        for file in files {
            match self.io.delete(file).await {
                Ok(()) => removed += 1,
                Err(error) => {
                    tracing::warn!(table = %slot.source, %file, %error, "a file that is no longer needed was not removed");
                }
            }
        }
        removed
    }
}

/// The table's schema, and where its rows are put, as the snapshots of a commit move them.
struct TableSteps<'a> {
    slot: &'a TableSlot,
    /// The table before the commit.
    base: &'a TableMetadata,
    metadata: TableMetadata,
}

impl TableSteps<'_> {
    /// Checks that files staged as `body` says can be committed now; returns the updates that give the table their schema and
    /// their place, where it lacks these.
    fn accept(&mut self, body: &DeltaBody) -> Result<Vec<TableUpdate>> {
        let table = &self.slot.source;
        if body.table_uuid != self.metadata.uuid() {
            return Err(self.stale(&format!("it was dropped and made anew (now {})", self.metadata.uuid())));
        }
        placement::check_spec(table, &self.metadata)?;
        let schema = match &body.schema {
            StagedSchema::Id(id) => {
                let Some(staged) = self.metadata.schema_by_id(*id) else {
                    return Err(self.stale(&format!("its schema {id} was removed")));
                };
                match schema::incompatibility(staged, self.metadata.current_schema()) {
                    None => None,
                    Some(why) => {
                        return Err(Error::new(
                            ErrorKind::Config,
                            format!(
                                "table {}: somebody changed its schema in the lake: {why}; change it back, or have {table} \
                                 loaded again (calve reload {table})",
                                self.slot.ident
                            ),
                        ));
                    }
                }
            }
            StagedSchema::Added { schema, over } => self.lacking(schema, *over)?,
        };
        let places = body.places.as_ref().filter(|places| !places.is_present(&self.metadata));
        if places.is_some_and(|places| places.over != self.base.default_partition_spec_id()) {
            return Err(self.stale("its partition spec was changed"));
        }
        let (metadata, updates) = placement::moved(table, &self.metadata, schema, places)?;
        if body.spec_id != metadata.default_partition_spec_id() {
            return Err(self.stale("its partition spec was changed"));
        }
        self.metadata = metadata;
        Ok(updates)
    }

    /// The schema, if the table does not have it yet.
    fn lacking(&self, staged: &Schema, over: i32) -> Result<Option<Schema>> {
        if schema::same_shape(staged, self.metadata.current_schema()) {
            return Ok(None);
        }
        // Ids that were new when the files were staged might be another column's by now.
        if self.base.current_schema_id() != over {
            return Err(self.stale("its schema was changed meanwhile"));
        }
        Ok(Some(staged.clone()))
    }

    fn stale(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::Conflict,
            format!("table {}: files were staged for it before {why}; they are staged again", self.slot.ident),
        )
    }
}

fn property_changes(slot: &TableSlot, now: &Marks, commit: &TableCommit) -> Result<PropertyChanges> {
    let mut changes = PropertyChanges::default();
    if let Some(stamp) = &commit.stamp {
        stamp::stamp_properties(stamp, &mut changes)?;
        stamp::substituted_properties(now, &commit.deltas, &mut changes);
    }
    stamp::member_properties(
        now,
        commit.stamp.as_ref(),
        commit.complete_to.as_ref(),
        &commit.join,
        &commit.leave,
        &mut changes,
    );
    match &commit.stop {
        Some(stop) if *stop != now.stopped => stamp::stop_properties(&slot.source, stop.as_ref(), &mut changes)?,
        _ => {}
    }
    Ok(changes)
}

/// Deletes by partition reach no file of another spec, which somebody may have written.
fn check_reach(slot: &TableSlot, body: &DeltaBody, kept: &[ManifestFile]) -> Result<()> {
    // Those under a spec without fields reach every file.
    let by_partition =
        |manifest: &StagedManifest| manifest.deletes && manifest.spec_id.is_none() && !manifest.partitions.is_empty();
    let of_others = |manifest: &&ManifestFile| {
        manifest.content == ManifestContentType::Data && is_live(manifest) && manifest.partition_spec_id != body.spec_id
    };
    let beyond = kept.iter().find(of_others).filter(|_| body.manifests.iter().any(by_partition));
    let Some(beyond) = beyond else { return Ok(()) };
    let table = &slot.source;
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "table {}: somebody wrote data files under its partition spec {} in the lake, which deletes under spec {} do not \
             reach; have that engine rewrite them under spec {}, or have {table} loaded again (calve reload {table})",
            slot.ident, beyond.partition_spec_id, body.spec_id, body.spec_id
        ),
    ))
}

/// The commit is for this table, this branch head, this schema and this spec, and no other.
fn requirements(metadata: &TableMetadata, updates: &[TableUpdate]) -> Vec<TableRequirement> {
    let mut requirements = vec![
        TableRequirement::UuidMatch { uuid: metadata.uuid() },
        TableRequirement::RefSnapshotIdMatch {
            r#ref: MAIN_BRANCH.to_owned(),
            snapshot_id: metadata.current_snapshot_id(),
        },
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: metadata.current_schema_id() },
        TableRequirement::DefaultSpecIdMatch { default_spec_id: metadata.default_partition_spec_id() },
    ];
    if updates.iter().any(|update| matches!(update, TableUpdate::AddSchema { .. })) {
        requirements
            .push(TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: metadata.last_column_id() });
    }
    if updates.iter().any(|update| matches!(update, TableUpdate::AddSpec { .. })) {
        let last_assigned_partition_id = metadata.last_partition_id();
        requirements.push(TableRequirement::LastAssignedPartitionIdMatch { last_assigned_partition_id });
    }
    requirements
}

fn receipt(known: &KnownTable, commit: &TableCommit) -> CommitReceipt {
    CommitReceipt {
        version: LakeVersion(known.at.location.clone()),
        complete_to: commit.complete_to.as_ref().map(|new| stamp::recorded(&known.marks, new)),
    }
}
