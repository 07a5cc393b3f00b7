//! The binary log from bytes to values: events, the shape of tables as the log tells it, and rows decoded straight into
//! the columns of a row buffer.
//!
//! Pure functions over bytes. Formats are those of MySQL 5.7 to 9 (`mysql/binlog/event`) and MariaDB 10 to 12
//! (`sql/log_event.h`). Whatever the bytes are, the result is a value or an error: nothing here panics on them, skips what
//! it does not know, or allocates more than a declared and bounded length.
//!
//! The flow: [`event::parse`] takes an event apart, [`plan::RowPlan::new`] matches a table map with the schema that the
//! table's rows have in the lake, [`plan::RowPlan::decode`] appends a row event to a sink. The conversions of single values
//! ([`value`], [`temporal`], [`decimal`], [`json`]) are shared with the snapshot reader, so that a row is the same
//! whichever way it came.

mod cell;
pub(crate) mod compressed;
pub(crate) mod decimal;
pub(crate) mod decode;
pub(crate) mod event;
mod fit;
pub(crate) mod geometry;
pub(crate) mod gtid;
pub(crate) mod json;
pub(crate) mod json_diff;
mod json_text;
pub(crate) mod native;
pub(crate) mod payload;
pub(crate) mod plan;
pub(crate) mod print;
pub(crate) mod query;
pub(crate) mod rows;
pub(crate) mod table_map;
pub(crate) mod temporal;
pub(crate) mod value;
pub(crate) mod wire;

#[cfg(test)]
mod captures;

/// Which of the two families a server belongs to. Their logs share a frame and differ in what is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flavour {
    MySql,
    MariaDb,
}
