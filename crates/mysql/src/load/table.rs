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
use crate::server::Server;
use crate::sql::identifier;

/// A table that can be read.
#[derive(Debug)]
pub(super) struct LoadTable {
    pub(super) schema: Arc<TableSchema>,
    pub(super) estimated_rows: Option<u64>,
    /// Of the columns that are kept.
    kinds: Vec<Kind>,
    /// Their places in the schema.
    places: Vec<usize>,
    rules: Vec<CellRule>,
    zero_dates: ZeroDates,
    pub(super) cutter: Cutter,
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
        let (kept, places) = (schema.kept(), schema.kept_places());
        let kinds = kept.columns.iter().map(Kind::of).collect::<Option<Vec<_>>>().ok_or_else(|| {
            let what = format!("table {table} has a column of a type that cannot be read");
            refused("schema changed", &Finding::error(what, "run `calve check`"))
        })?;
        drop(kept);
        let cutter = Cutter::of(&found, &schema, piece_rows);
        let zero_dates = server.conversions.zero_dates.clone();
        let rules = server.conversions.rules.cells(&schema);
        Ok(Self { schema, estimated_rows: found.estimated_rows, kinds, places, rules, zero_dates, cutter })
    }

    pub(super) fn select(&self, range: &Range) -> String {
        let columns: Vec<String> = self.schema.kept().columns.iter().map(|column| identifier(&column.name)).collect();
        format!("SELECT {}{}", columns.join(", "), self.cutter.rows_of(range))
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
