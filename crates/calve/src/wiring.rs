//! Puts the pieces together: source, lake and engine as the settings say.

use std::collections::BTreeMap;
use std::sync::Arc;

use calve_core::{Error, ErrorKind, Result, TableName};
use calve_iceberg::{
    CatalogSettings, DEFAULT_CATALOG_NAME, IcebergLake, LakeSettings, SnapshotRetentionSettings, Target,
};
use calve_mysql::{Conversions, Merge, Merges, MySqlSettings, OnZeroDate, ZeroDates};
use calve_postgres::PostgresSettings;
use uuid::Uuid;

use crate::config::{Catalog, Settings};
use crate::database::{Address, Database};
use crate::lake_dir::RecordedTable;

/// Tables of the source and their names in the lake.
pub(crate) type Targets = BTreeMap<TableName, TableName>;

/// The source and how this pipeline reads it.
pub(crate) fn database(settings: &Settings) -> Result<Database> {
    let application = format!("calve {}", settings.pipeline);
    Ok(match settings.source()?.clone() {
        Address::Postgres(connect) => Database::Postgres(PostgresSettings {
            slot: settings.slot.clone(),
            publication: settings.publication.clone(),
            manage_publication: settings.manage_publication,
            load_parallelism: settings.load_parallelism,
            read_ahead_bytes: settings.memory.read_ahead(),
            spill_dir: settings.spill_dir(),
            rules: settings.tables.rules(),
            ..PostgresSettings::new(connect.with_application_name(application), &settings.pipeline)
        }),
        Address::MySql(connect) => {
            let defaults = MySqlSettings::new(connect.with_application_name(application), &settings.pipeline);
            Database::MySql(MySqlSettings {
                server_id: settings.server_id.unwrap_or(defaults.server_id),
                load_parallelism: settings.load_parallelism,
                read_ahead_bytes: settings.memory.read_ahead(),
                spill_dir: settings.spill_dir(),
                checkpoint_bytes: settings.checkpoint.bytes,
                conversions: Conversions {
                    tinyint1_as_boolean: settings.tinyint1_as_boolean,
                    zero_dates: ZeroDates::new(if settings.zero_dates_become_null {
                        OnZeroDate::Null
                    } else {
                        OnZeroDate::Error
                    }),
                    rules: settings.tables.rules(),
                    merges: Merges::new(
                        settings.tables.merges().into_iter().map(|merging| {
                            Merge::new(merging.table, merging.origin, merging.pattern, merging.origin_of)
                        }),
                    ),
                },
                ..defaults
            })
        }
    })
}

/// What a selection finds in the source.
pub(crate) struct Found {
    pub(crate) targets: Targets,
    /// Of merged tables among these the members.
    pub(crate) members: BTreeMap<TableName, Vec<TableName>>,
    /// What is wrong with the selection.
    pub(crate) wrong: Vec<String>,
}

/// Looks for the selected tables.
pub(crate) async fn look_for_tables(settings: &Settings) -> Result<Found> {
    settings.tables.required()?;
    let tables = database(settings)?.list_tables(&settings.tables.named()).await?;
    let (targets, wrong) = settings.tables.resolve(&tables, &[]);
    let mut members: BTreeMap<TableName, Vec<TableName>> = BTreeMap::new();
    for merging in settings.tables.merges().into_iter().filter(|merging| targets.contains_key(&merging.table)) {
        let of_this = tables.iter().filter(|table| (merging.origin_of)(table).is_some()).cloned();
        members.insert(merging.table, of_this.collect());
    }
    Ok(Found { targets, members, wrong })
}

/// The selected tables: those that the source has, and those of the last run that it has no longer, which have a state of
/// their own. Anything wrong with the selection is an error.
pub(crate) async fn select_tables(settings: &Settings, before: &Targets) -> Result<Targets> {
    settings.tables.required()?;
    let mut tables = database(settings)?.list_tables(&settings.tables.named()).await?;
    let merged: Vec<TableName> = settings.tables.merges().into_iter().map(|merging| merging.table).collect();
    let gone = before.keys().filter(|table| !tables.contains(table)).cloned();
    let (before, gone): (Vec<_>, Vec<_>) = gone.partition(|table| merged.contains(table));
    tables.extend(gone);
    match settings.tables.resolve(&tables, &before) {
        (targets, wrong) if wrong.is_empty() => Ok(targets),
        (_, wrong) => Err(Error::new(ErrorKind::Config, wrong.join("; "))),
    }
}

/// The tables of the last run; none where there was none.
pub(crate) fn tables_before(settings: &Settings) -> Result<Targets> {
    let record = settings.lake_dir().record(&settings.pipeline)?;
    Ok(record.map(|record| targets(&record.tables)).unwrap_or_default())
}

/// The lake, its catalog and warehouse made where they are missing.
pub(crate) async fn lake(settings: &Settings, targets: &Targets) -> Result<Arc<IcebergLake>> {
    let target = |table: &TableName, name: &TableName| {
        let (layout, files) = settings.tables.layout(table, &settings.files);
        let properties = [
            ("write.parquet.compression-codec", files.compression.name().to_owned()),
            ("write.target-file-size-bytes", files.target_size.to_string()),
        ];
        Target {
            namespace: name.schema.clone(),
            name: name.name.clone(),
            properties: properties.map(|(key, value)| (key.to_owned(), value)).into(),
            layout,
        }
    };
    IcebergLake::open(LakeSettings {
        catalog: match &settings.catalog {
            Catalog::Sqlite(path) => CatalogSettings::Sqlite { path: path.clone() },
            Catalog::Postgres(url) => CatalogSettings::Postgres { url: url.reveal().to_owned() },
        },
        catalog_name: DEFAULT_CATALOG_NAME.to_owned(),
        warehouse: settings.warehouse.clone(),
        pipeline: settings.pipeline.clone(),
        run: Uuid::new_v4(),
        encoders: settings.memory.encoders(),
        targets: targets.iter().map(|(table, name)| (table.clone(), target(table, name))).collect(),
        retention: SnapshotRetentionSettings {
            age: settings.expiry.age,
            min: settings.expiry.min_snapshots,
            max: settings.expiry.max_snapshots,
        },
    })
    .await
}

/// The lake, if there is one; nothing is made.
pub(crate) async fn existing_lake(settings: &Settings, targets: &Targets) -> Result<Option<Arc<IcebergLake>>> {
    match &settings.catalog {
        Catalog::Sqlite(path) if !path.is_file() => Ok(None),
        _ => lake(settings, targets).await.map(Some),
    }
}

/// All tables that the last run of this pipeline had; where there was no run, those selected that the source has.
pub(crate) async fn pipeline_tables(settings: &Settings) -> Result<Targets> {
    let before = tables_before(settings)?;
    if !before.is_empty() {
        return Ok(before);
    }
    if settings.known_source().is_some() && !settings.tables.is_empty() {
        return select_tables(settings, &before).await;
    }
    let message = format!(
        "no pipeline '{}' has run on the lake {}; check --into and --name, or give a configuration file",
        settings.pipeline,
        settings.lake_dir()
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// Those of the pipeline's tables that are selected now; all of them where nothing is.
pub(crate) fn chosen_tables(settings: &Settings, all: &Targets) -> Result<Targets> {
    let chosen = |table: &TableName| settings.tables.is_empty() || settings.tables.target(table).is_some();
    let chosen: Targets =
        all.iter().filter(|(table, _)| chosen(table)).map(|(table, target)| (table.clone(), target.clone())).collect();
    if chosen.is_empty() {
        let known: Vec<_> = all.keys().map(ToString::to_string).collect();
        let message = format!("none of the pipeline's tables is selected; it has {}", known.join(", "));
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(chosen)
}

fn targets(recorded: &[RecordedTable]) -> Targets {
    recorded.iter().map(|table| (table.source.clone(), table.target.clone())).collect()
}
