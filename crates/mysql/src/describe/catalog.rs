//! What the catalog says of a table, read in one round trip.

use calve_core::{Result, TableName};
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, FromRowError, Row, TextProtocol};

use crate::error::sql_error;
use crate::sql::literal;
use crate::types::CatalogType;

/// A table as the catalog has it, whatever it is.
#[derive(Clone, Debug)]
pub(crate) struct CatalogTable {
    pub(crate) table: TableName,
    /// `BASE TABLE`, `VIEW`, ..
    pub(crate) kind: String,
    /// Empty for a view.
    pub(crate) engine: String,
    pub(crate) estimated_rows: Option<u64>,
    /// `TABLE_COLLATION`: what text columns get that come without one of their own; empty for a view.
    pub(crate) collation: String,
    pub(crate) columns: Vec<CatalogColumn>,
    /// Parts of the primary key, in its order; empty where there is none.
    pub(crate) key: Vec<KeyPart>,
    /// Columns of its other unique indexes; None stands for an expression.
    pub(crate) unique: Vec<Option<String>>,
    /// The account that the session has the rights of, as `user@host`.
    pub(crate) account: String,
}

#[derive(Clone, Debug)]
pub(crate) struct CatalogColumn {
    pub(crate) name: String,
    pub(crate) ty: CatalogType,
    /// `COLLATION_NAME`; empty for what is no text.
    pub(crate) collation: String,
    pub(crate) nullable: bool,
    /// `EXTRA`, in upper case: `VIRTUAL GENERATED`, `INVISIBLE`, ..
    pub(crate) extra: String,
}

impl CatalogColumn {
    /// Computed from other columns, stored or not. MySQL also says of a default that it was generated.
    pub(crate) fn is_generated(&self) -> bool {
        ["VIRTUAL GENERATED", "STORED GENERATED", "PERSISTENT"].iter().any(|kind| self.extra.contains(kind))
    }

    /// An ENUM or SET whose labels the catalog may not show as they are: it knows no characters beyond U+FFFF.
    pub(crate) fn has_unclear_labels(&self) -> bool {
        let beyond = ["utf8mb4", "utf16", "utf16le", "utf32", "gb18030"];
        ["enum", "set"].contains(&self.ty.data_type.as_str())
            && self.ty.column_type.contains('?')
            && self.ty.character_set.as_ref().is_some_and(|name| beyond.contains(&name.as_str()))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct KeyPart {
    pub(crate) column: String,
    /// Only the first characters of the column are in the key.
    pub(crate) prefix: bool,
    pub(crate) descending: bool,
}

/// A row by the names of its columns: the servers differ in what they return and in the case of the names.
struct Named(Row);

impl FromRow for Named {
    fn from_row_opt(row: Row) -> std::result::Result<Self, FromRowError> {
        Ok(Self(row))
    }
}

impl Named {
    fn text(&self, name: &str) -> Option<String> {
        self.0.get_opt::<Option<String>, _>(name).and_then(std::result::Result::ok).flatten()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get_opt::<Option<u64>, _>(name).and_then(std::result::Result::ok).flatten()
    }
}

/// Reads a table. None where there is none of this very name that the user may see.
pub(crate) async fn read(conn: &mut Conn, table: &TableName) -> Result<Option<CatalogTable>> {
    let failed = |error: mysql_async::Error| sql_error(format_args!("cannot read the catalog about {table}"), &error);
    let of_table = format!("TABLE_SCHEMA = {} AND TABLE_NAME = {}", literal(&table.schema), literal(&table.name));
    let sql = format!(
        "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, TABLE_TYPE AS kind, ENGINE AS engine, TABLE_ROWS AS estimated_rows, TABLE_COLLATION AS collation, \
                CURRENT_USER() AS account \
           FROM information_schema.TABLES WHERE {of_table}; \
         SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, COLUMN_NAME AS name, LOWER(DATA_TYPE) AS data_type, \
                COLUMN_TYPE AS column_type, CHARACTER_OCTET_LENGTH AS octets, NUMERIC_PRECISION AS digits, \
                NUMERIC_SCALE AS scale, DATETIME_PRECISION AS fraction, CHARACTER_SET_NAME AS character_set, COLLATION_NAME AS collation, \
                IS_NULLABLE AS nullable, UPPER(EXTRA) AS extra \
           FROM information_schema.COLUMNS WHERE {of_table} ORDER BY ORDINAL_POSITION; \
         SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, COLUMN_NAME AS name, SUB_PART AS prefix, COLLATION AS direction \
           FROM information_schema.STATISTICS WHERE {of_table} AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX; \
         SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, COLUMN_NAME AS name \
           FROM information_schema.STATISTICS WHERE {of_table} AND NON_UNIQUE = 0 AND INDEX_NAME <> 'PRIMARY'"
    );
    let mut answers = conn.query_iter(sql).await.map_err(failed)?;
    let mut sets = Vec::new();
    for _ in 0..4 {
        sets.push(exactly(table, &mut answers).await.map_err(failed)?);
    }
    answers.drop_result().await.map_err(failed)?;
    let (unique, key, columns, found) = (sets.pop(), sets.pop(), sets.pop(), sets.pop());
    let Some(found) = found.unwrap_or_default().into_iter().next() else { return Ok(None) };
    Ok(Some(CatalogTable {
        table: table.clone(),
        kind: found.text("kind").unwrap_or_default(),
        engine: found.text("engine").unwrap_or_default(),
        estimated_rows: found.number("estimated_rows"),
        collation: found.text("collation").unwrap_or_default(),
        columns: columns.unwrap_or_default().iter().map(column).collect(),
        key: key.unwrap_or_default().iter().map(key_part).collect(),
        unique: unique.unwrap_or_default().iter().map(|part| part.text("name")).collect(),
        account: found.text("account").unwrap_or_default(),
    }))
}

/// The next answer's rows of the table of this very name: the catalog may compare names without case.
async fn exactly(
    table: &TableName,
    answers: &mut mysql_async::QueryResult<'_, '_, TextProtocol>,
) -> mysql_async::Result<Vec<Named>> {
    let mut rows: Vec<Named> = answers.collect().await?;
    rows.retain(|row| row.text("s").as_deref() == Some(&table.schema) && row.text("t").as_deref() == Some(&table.name));
    Ok(rows)
}

fn column(row: &Named) -> CatalogColumn {
    CatalogColumn {
        name: row.text("name").unwrap_or_default(),
        ty: CatalogType {
            data_type: row.text("data_type").unwrap_or_default(),
            column_type: row.text("column_type").unwrap_or_default(),
            octet_length: row.number("octets"),
            precision: row.number("digits"),
            scale: row.number("scale"),
            fraction_digits: row.number("fraction"),
            character_set: row.text("character_set"),
        },
        collation: row.text("collation").unwrap_or_default(),
        nullable: row.text("nullable").as_deref() != Some("NO"),
        extra: row.text("extra").unwrap_or_default(),
    }
}

fn key_part(row: &Named) -> KeyPart {
    KeyPart {
        column: row.text("name").unwrap_or_default(),
        prefix: row.number("prefix").is_some(),
        descending: row.text("direction").as_deref() == Some("D"),
    }
}
