//! The catalog in a SQL database, in the layout that every Iceberg library calls its SQL or JDBC catalog.
//!
//! A table is a row whose `metadata_location` names its metadata file; a commit writes the next metadata file and swaps the
//! location by compare-and-swap. The iceberg crate's own catalog is not used: it drops the outcome of the database's
//! commit, and takes no updates from outside.

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use calve_core::{Error, ErrorKind, Result};
use iceberg::io::FileIO;
use iceberg::spec::{TableMetadata, TableProperties};
use iceberg::{MetadataLocation, TableIdent, TableRequirement, TableUpdate};

use serde::Deserialize;

use super::database::Database;
use super::{Catalog, CommitError, Committed, References, TableAt};
use crate::error::{iceberg_bug, iceberg_corrupt, iceberg_retry};
use crate::failpoint;
use crate::naming::{self, FileNaming};
use crate::settings::CatalogSettings;

const TABLES: &str = "CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL,
    table_namespace VARCHAR(255) NOT NULL,
    table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000),
    previous_metadata_location VARCHAR(1000),
    iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name))";

const NAMESPACES: &str = "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255),
    property_value VARCHAR(1000),
    PRIMARY KEY (catalog_name, namespace, property_key))";

/// Property that Java's writers honour too: whether metadata files that fall out of the log are removed.
const DELETE_OLD_METADATA: &str = "write.metadata.delete-after-commit.enabled";

/// The longest location that fits the catalog's column in every library.
const LONGEST_LOCATION: usize = 1_000;

/// The part of a metadata file that the crate reads and does not show.
#[derive(Deserialize)]
struct WithReferences {
    refs: Option<References>,
}

/// A catalog in sqlite or Postgres.
#[derive(Debug)]
pub(crate) struct SqlCatalog {
    database: Database,
    name: String,
    io: FileIO,
    naming: Arc<FileNaming>,
    /// Catalogs made by older libraries lack the column `iceberg_type`.
    has_type: bool,
}

impl SqlCatalog {
    /// Connects, and makes the catalog's tables where they are missing.
    pub(crate) async fn open(
        settings: &CatalogSettings,
        name: &str,
        io: FileIO,
        naming: Arc<FileNaming>,
    ) -> Result<Self> {
        let database = Database::connect(settings).await?;
        if database.fetch("SELECT table_name FROM iceberg_tables LIMIT 1", &[]).await.is_err() {
            for statement in [TABLES, NAMESPACES] {
                if let Err(failure) = database.execute(statement, &[]).await {
                    // Two processes that create the same table at once: one of them fails, and then it is there.
                    if database.fetch("SELECT table_name FROM iceberg_tables LIMIT 1", &[]).await.is_err() {
                        return Err(failure.error);
                    }
                    database.execute(statement, &[]).await.map_err(|failure| failure.error)?;
                }
            }
        }
        let has_type = database.fetch("SELECT iceberg_type FROM iceberg_tables LIMIT 1", &[]).await.is_ok();
        Ok(Self { database, name: name.to_owned(), io, naming, has_type })
    }

    async fn metadata_location(&self, table: &TableIdent) -> Result<Option<String>> {
        let rows = self
            .database
            .fetch(
                "SELECT metadata_location FROM iceberg_tables \
                 WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3",
                &[&self.name, &namespace(table), table.name()],
            )
            .await?;
        match rows.into_iter().next().and_then(|row| row.into_iter().next()) {
            None => Ok(None),
            Some(Some(location)) => Ok(Some(location)),
            Some(None) => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}: table {table} has no metadata location; drop its row, or restore it",
                    self.database.place()
                ),
            )),
        }
    }

    async fn read(&self, table: &TableIdent, location: &str) -> Result<TableAt> {
        let metadata = match TableMetadata::read_from(&self.io, location).await {
            Ok(metadata) => metadata,
            Err(e) if matches!(self.io.exists(location).await, Ok(false)) => {
                return Err(iceberg_corrupt(
                    format!("table {table}: the catalog names the metadata file {location}, which is not there"),
                    e,
                ));
            }
            Err(e) if e.kind() == iceberg::ErrorKind::Unexpected => {
                return Err(iceberg_retry(format!("table {table}: cannot read its metadata file {location}"), e));
            }
            Err(e) => {
                return Err(iceberg_corrupt(format!("table {table}: its metadata file {location} cannot be read"), e));
            }
        };
        let refs = references(&metadata).map_err(|e| {
            Error::with_source(ErrorKind::Bug, format!("table {table}: its metadata has no JSON form"), e)
        })?;
        Ok(TableAt { location: location.to_owned(), metadata: Arc::new(metadata), refs: Arc::new(refs) })
    }

    /// Writes a metadata file, durably, and returns its location.
    async fn write(&self, table: &TableIdent, metadata: &TableMetadata, version: u32) -> Result<String> {
        let location = self.naming.metadata(metadata.location(), version);
        let location = MetadataLocation::from_str(&location)
            .map_err(|e| iceberg_bug(format!("table {table}: {location} is no metadata file's name"), e))?
            .with_new_metadata(metadata);
        let text = location.to_string();
        if text.len() > LONGEST_LOCATION {
            return Err(Error::new(
                ErrorKind::Config,
                format!("table {table}: its directory {} has too long a path for a catalog", metadata.location()),
            ));
        }
        metadata
            .write_to(&self.io, &location)
            .await
            .map_err(|e| iceberg_retry(format!("table {table}: cannot write the metadata file {text}"), e))?;
        Ok(text)
    }

    /// Removes a metadata file that nothing will ever name.
    async fn remove(&self, location: &str) {
        if let Err(error) = self.io.delete(location).await {
            tracing::warn!(%location, %error, "a metadata file that lost its commit was not removed");
        }
    }

    async fn register_namespace(&self, table: &TableIdent) -> Result<()> {
        let namespace = namespace(table);
        let present = self
            .database
            .fetch(
                "SELECT namespace FROM iceberg_namespace_properties \
                 WHERE catalog_name = $1 AND namespace = $2 LIMIT 1",
                &[&self.name, &namespace],
            )
            .await?;
        if !present.is_empty() {
            return Ok(());
        }
        match self
            .database
            .execute(
                "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value) \
                 VALUES ($1, $2, 'exists', 'true')",
                &[&self.name, &namespace],
            )
            .await
        {
            Ok(_) => Ok(()),
            Err(failure) if failure.duplicate => Ok(()),
            Err(failure) => Err(failure.error),
        }
    }
}

#[async_trait]
impl Catalog for SqlCatalog {
    async fn load(&self, table: &TableIdent, known: Option<&TableAt>) -> Result<Option<TableAt>> {
        let Some(location) = self.metadata_location(table).await? else { return Ok(None) };
        if let Some(known) = known
            && known.location == location
        {
            return Ok(Some(known.clone()));
        }
        self.read(table, &location).await.map(Some)
    }

    async fn create(&self, table: &TableIdent, metadata: TableMetadata) -> std::result::Result<TableAt, CommitError> {
        self.register_namespace(table).await.map_err(CommitError::Lost)?;
        let location = self.write(table, &metadata, 0).await.map_err(CommitError::Lost)?;
        let (columns, values) = if self.has_type { (", iceberg_type", ", 'TABLE'") } else { ("", "") };
        let inserted = self
            .database
            .execute(
                &format!(
                    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location{columns}) \
                     VALUES ($1, $2, $3, $4{values})"
                ),
                &[&self.name, &namespace(table), table.name(), &location],
            )
            .await;
        match inserted {
            Ok(_) => Ok(TableAt { location, metadata: Arc::new(metadata), refs: Arc::default() }),
            Err(failure) if failure.duplicate => {
                self.remove(&location).await;
                Err(CommitError::Lost(Error::with_source(
                    ErrorKind::Conflict,
                    format!("table {table} was created by another process at the same time"),
                    failure.error,
                )))
            }
            Err(failure) if failure.applied_nothing => {
                self.remove(&location).await;
                Err(CommitError::Lost(failure.error))
            }
            Err(failure) => Err(CommitError::Unknown(failure.error)),
        }
    }

    async fn commit(
        &self,
        table: &TableIdent,
        base: &TableAt,
        requirements: &[TableRequirement],
        updates: Vec<TableUpdate>,
    ) -> std::result::Result<Committed, CommitError> {
        for requirement in requirements {
            requirement.check(Some(&base.metadata)).map_err(|e| CommitError::Lost(changed(table, e)))?;
        }
        let refused = |e| CommitError::Lost(iceberg_bug(format!("table {table}: the commit does not apply"), e));
        let mut builder = (*base.metadata).clone().into_builder(Some(base.location.clone()));
        let mut refs = (*base.refs).clone();
        for update in updates {
            match &update {
                TableUpdate::SetSnapshotRef { ref_name, reference } => {
                    refs.insert(ref_name.clone(), reference.clone());
                }
                TableUpdate::RemoveSnapshotRef { ref_name } => {
                    refs.remove(ref_name);
                }
                _ => {}
            }
            builder = update.apply(builder).map_err(refused)?;
        }
        let built = builder.build().map_err(refused)?;
        let metadata = built.metadata;
        refs.retain(|_, reference| metadata.snapshot_by_id(reference.snapshot_id).is_some());

        let logged = u32::try_from(metadata.metadata_log().len()).unwrap_or(u32::MAX);
        let version = naming::metadata_version(&base.location).map_or(logged, |version| version.saturating_add(1));
        let location = self.write(table, &metadata, version).await.map_err(CommitError::Lost)?;
        failpoint::hit("commit.metadata-written");

        let swapped = self
            .database
            .execute(
                "UPDATE iceberg_tables SET metadata_location = $1, previous_metadata_location = $2 \
                 WHERE catalog_name = $3 AND table_namespace = $4 AND table_name = $5 AND metadata_location = $6",
                &[&location, &base.location, &self.name, &namespace(table), table.name(), &base.location],
            )
            .await;
        match swapped {
            Ok(1) => {}
            Ok(_) => {
                self.remove(&location).await;
                return Err(CommitError::Lost(Error::new(
                    ErrorKind::Conflict,
                    format!("table {table} was changed by another process since it was read"),
                )));
            }
            Err(failure) if failure.applied_nothing => {
                self.remove(&location).await;
                return Err(CommitError::Lost(failure.error));
            }
            Err(failure) => return Err(CommitError::Unknown(failure.error)),
        }
        failpoint::hit("commit.swapped");

        let delete = metadata.properties().get(DELETE_OLD_METADATA).is_some_and(|on| on.eq_ignore_ascii_case("true"));
        let old_metadata = if delete {
            built.expired_metadata_logs.into_iter().map(|entry| entry.metadata_file).collect()
        } else {
            Vec::new()
        };
        let at = TableAt { location, metadata: Arc::new(metadata), refs: Arc::new(refs) };
        Ok(Committed { at, old_metadata })
    }

    async fn drop_table(&self, table: &TableIdent) -> Result<bool> {
        self.database
            .execute(
                "DELETE FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3",
                &[&self.name, &namespace(table), table.name()],
            )
            .await
            .map(|rows| rows > 0)
            .map_err(|failure| failure.error)
    }
}

/// Properties that keep the metadata files of a new table few, for calve's commits and for those of others.
pub(crate) fn metadata_properties() -> [(String, String); 2] {
    [
        (DELETE_OLD_METADATA.to_owned(), String::from("true")),
        (TableProperties::PROPERTY_METADATA_PREVIOUS_VERSIONS_MAX.to_owned(), String::from("20")),
    ]
}

/// Branches and tags, by way of the metadata's JSON form: the crate has no other way to list them.
fn references(metadata: &TableMetadata) -> serde_json::Result<References> {
    let json = serde_json::to_vec(metadata)?;
    let with_references: WithReferences = serde_json::from_slice(&json)?;
    Ok(with_references.refs.unwrap_or_default())
}

fn namespace(table: &TableIdent) -> String {
    table.namespace().join(".")
}

fn changed(table: &TableIdent, cause: iceberg::Error) -> Error {
    Error::with_source(
        ErrorKind::Conflict,
        format!("table {table} was changed by another process since it was read: {}", cause.message()),
        cause,
    )
}
