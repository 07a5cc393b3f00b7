//! A table being loaded: what is selected of it, and how a row that comes back is put into its columns.

use std::sync::Arc;

use calve_core::{
    CellRule, ColumnBuffer, Error, ErrorKind, Finding, RowBuffer, RowOp, StopReason, Substitute, Substituted,
    TableName, TableSchema, show_key,
};
use mysql_async::{Row, Value};

use super::cell::{Fault, Kind};
use super::cut::{Cutter, Range};
use crate::conversions::{ZeroDates, refused_zero_date, tell_substituted};
use crate::describe::catalog::CatalogTable;
use crate::describe::missing;
use crate::merge::{AsMember, Merge};
use crate::server::Server;
use crate::sql::identifier;

/// The place of the column that says which member of a merged table a row is of.
const ORIGIN: usize = 0;

/// A table that can be read.
#[derive(Debug)]
pub(super) struct LoadTable {
    /// Of its rows: where it is a member of a merged table, of that.
    pub(super) schema: Arc<TableSchema>,
    /// Its name at the source.
    pub(super) name: TableName,
    /// Its own columns, in its order.
    pub(super) columns: Vec<String>,
    /// Of the columns that are kept, as the server is asked for them.
    selected: Vec<String>,
    member: Option<Member>,
    pub(super) estimated_rows: Option<u64>,
    /// Of the columns that are kept.
    kinds: Vec<Kind>,
    /// Their places in the schema.
    places: Vec<usize>,
    rules: Vec<CellRule>,
    zero_dates: ZeroDates,
    pub(super) cutter: Cutter,
}

/// What rows of a member of a merged table have beside its own columns.
#[derive(Debug)]
struct Member {
    /// In the merged table's first column.
    origin: String,
    /// Columns that are NULL.
    absent: Vec<usize>,
}

/// Why a piece was not read to its end.
pub(super) enum PieceFault {
    /// The table holds what the lake cannot.
    Stop(StopReason),
    /// A column of the buffer can take no more.
    Full,
    /// The connection failed, or the bytes are wrong.
    Broken(Error),
}

impl LoadTable {
    pub(super) fn of(
        server: &Server,
        table: &TableName,
        found: Option<CatalogTable>,
        piece_rows: u64,
    ) -> std::result::Result<Self, StopReason> {
        let refused = |state: &str, finding: &Finding| StopReason {
            state: state.to_owned(),
            detail: finding.what.clone(),
            remedy: format!("{}; then run `calve reload {table}`", finding.remedy),
        };
        let found = found.ok_or_else(|| refused("dropped", &missing(table)))?;
        let schema = found.schema(server).map_err(|finding| refused("schema changed", &finding))?;
        let table = Self::reading(server, &found, &schema, Arc::clone(&schema), piece_rows);
        table.map_err(|finding| refused("schema changed", &finding))
    }

    /// The members of a merged table.
    pub(super) fn of_members(
        server: &Server,
        merge: &Merge,
        (schema, found): (std::result::Result<Arc<TableSchema>, Finding>, Vec<CatalogTable>),
        piece_rows: u64,
    ) -> std::result::Result<Vec<Self>, StopReason> {
        let refused = |finding: &Finding| StopReason {
            state: if found.is_empty() { StopReason::DROPPED } else { StopReason::SCHEMA_CHANGED }.into(),
            detail: finding.what.clone(),
            remedy: format!("{}; then run `calve reload {}`", finding.remedy, merge.table),
        };
        let schema = schema.map_err(|finding| refused(&finding))?;
        let mut members = Vec::with_capacity(found.len());
        for table in &found {
            // Both are, for the schema is made of these tables.
            let (Some(own), Some(origin)) = (AsMember::of(&schema, &table.table), merge.origin_of(&table.table)) else {
                return Err(refused(&missing(&table.table)));
            };
            let read = Self::reading(server, table, &own.schema, Arc::clone(&schema), piece_rows);
            let read = read.map_err(|finding| refused(&finding))?;
            let places = read.places.iter().filter_map(|at| own.places.get(*at).copied()).collect();
            members.push(Self { places, member: Some(Member { origin, absent: own.absent }), ..read });
        }
        Ok(members)
    }

    /// A table of these columns of its own, whose rows have the schema.
    fn reading(
        server: &Server,
        found: &CatalogTable,
        own: &TableSchema,
        schema: Arc<TableSchema>,
        piece_rows: u64,
    ) -> std::result::Result<Self, Finding> {
        let (kept, places) = (own.kept(), own.kept_places());
        let kinds = kept.columns.iter().map(Kind::of).collect::<Option<Vec<_>>>().ok_or_else(|| {
            let what = format!("table {} has a column of a type that cannot be read", found.table);
            Finding::error(what, "run `calve check`")
        })?;
        Ok(Self {
            name: found.table.clone(),
            columns: own.columns.iter().map(|column| column.name.clone()).collect(),
            selected: kept.columns.iter().map(|column| identifier(&column.name)).collect(),
            member: None,
            estimated_rows: found.estimated_rows,
            kinds,
            places,
            rules: server.conversions.rules.cells(&schema),
            zero_dates: server.conversions.zero_dates.clone(),
            cutter: Cutter::of(found, own, piece_rows),
            schema,
        })
    }

    pub(super) fn select(&self, range: &Range) -> String {
        format!("SELECT {}{}", self.selected.join(", "), self.cutter.rows_of(range))
    }

    /// Appends a row; returns about how many bytes it has.
    pub(super) fn push(
        &self,
        row: &Row,
        scratch: &mut Vec<u8>,
        buffer: &mut RowBuffer,
    ) -> std::result::Result<usize, PieceFault> {
        let mut bytes = 0;
        let mut substituted = Substituted::default();
        for (place, (kind, at)) in self.kinds.iter().zip(&self.places).enumerate() {
            let value = row.as_ref(place).unwrap_or(&Value::NULL);
            bytes += match value {
                Value::Bytes(value) => value.len() + 4,
                _ => 8,
            };
            if let Err(fault) = self.push_cell((row, value), *at, *kind, scratch, &mut substituted, buffer) {
                buffer.discard_row();
                return Err(fault);
            }
        }
        if let Some(member) = &self.member {
            if buffer.image(ORIGIN).push_str(&member.origin).is_err() {
                buffer.discard_row();
                return Err(PieceFault::Full);
            }
            member.absent.iter().for_each(|&at| buffer.image(at).push_null());
            bytes += member.origin.len();
        }
        buffer.note_substituted(substituted);
        buffer.finish_row(RowOp::Insert);
        Ok(bytes)
    }

    fn push_cell(
        &self,
        (row, value): (&Row, &Value),
        at: usize,
        kind: Kind,
        scratch: &mut Vec<u8>,
        substituted: &mut Substituted,
        buffer: &mut RowBuffer,
    ) -> std::result::Result<(), PieceFault> {
        let nullable = self.schema.columns.get(at).is_some_and(|column| column.nullable);
        let out = buffer.image(at);
        if *value == Value::NULL {
            if !nullable {
                return Err(self.stop(row, at, "NULL, which the column does not allow"));
            }
            out.push_null();
            return Ok(());
        }
        match kind.push(value, scratch, out) {
            Ok(()) => Ok(()),
            Err(Fault::ZeroDate) if nullable && self.zero_dates.become_null() => {
                out.push_null();
                substituted.count(Substitute::Null);
                let name = self.schema.columns.get(at).map_or("", |column| &column.name);
                self.zero_dates.tell(&self.schema.table, name);
                Ok(())
            }
            Err(Fault::ZeroDate) => Err(self.stop(row, at, refused_zero_date(self.schema.key.contains(&at)))),
            Err(Fault::Unrepresentable { what }) => {
                let rule = self.rules.get(at);
                match rule.and_then(|rule| Some((rule, rule.append(kind.nearest(value), out)?))) {
                    Some((rule, substitute)) => {
                        substituted.count(substitute);
                        tell_substituted(rule, &self.schema, at, what);
                        Ok(())
                    }
                    None => Err(self.stop(row, at, what)),
                }
            }
            Err(Fault::Full(_)) => Err(PieceFault::Full),
            Err(fault @ Fault::Malformed { .. }) => {
                let (table, column) = (&self.schema.table, self.column(at));
                let message =
                    format!("the server sent column {column} of table {table} in a form that cannot be read: {fault}");
                Err(PieceFault::Broken(Error::new(ErrorKind::Corrupt, message)))
            }
        }
    }

    fn column(&self, at: usize) -> String {
        self.schema.columns.get(at).map_or_else(String::new, |column| identifier(&column.name))
    }

    /// The key of a row as people read it, with a `?` for what cannot be read.
    fn key_of(&self, row: &Row) -> String {
        let mut scratch = Vec::new();
        let part = |&at: &usize| {
            let column = self.schema.columns.get(at)?;
            let mut out = ColumnBuffer::new(column.ty.clone());
            if let Some(member) = self.member.as_ref().filter(|_| at == ORIGIN) {
                let _ = out.push_str(&member.origin);
                return Some(out);
            }
            let place = self.places.iter().position(|place| *place == at)?;
            if let (Some(kind), Some(value)) = (self.kinds.get(place), row.as_ref(place)) {
                let _ = kind.push(value, &mut scratch, &mut out);
            }
            Some(out)
        };
        let key: Vec<ColumnBuffer> = self.schema.key.iter().filter_map(part).collect();
        show_key(&self.schema, key.iter(), 0)
    }

    fn stop(&self, row: &Row, at: usize, what: &str) -> PieceFault {
        PieceFault::Stop(StopReason {
            state: "unrepresentable value".into(),
            detail: format!("column {} of the row with {} holds {what}", self.column(at), self.key_of(row)),
            remedy: format!("change the value in the source, then run `calve reload {}`", self.schema.table),
        })
    }
}
