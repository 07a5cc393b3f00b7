//! Tables cut into pieces along their primary key, so that several connections share a table and no piece holds a lock on
//! it for long.
//!
//! Ends of pieces are values of the key, compared by the server in the key's own collation and order: two pieces that meet
//! at a value share no row and leave none out, whatever the collation takes for equal.

use calve_core::{Error, ErrorKind, Result, TableName, TableSchema};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};

use crate::describe::catalog::CatalogTable;
use crate::error::sql_error;
use crate::sql::{identifier, qualified};
use crate::types::code;

/// Rows of a piece: few enough to be held until its locks are released, so that an ALTER waits for milliseconds.
pub(super) const PIECE_ROWS: u64 = 8192;
/// A range of integers is divided evenly where at least one number in this many is a row's.
const SPARSE: u128 = 8;

/// How a column's values are written as literals.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Literal {
    /// Digits.
    Number,
    /// Bit fields, which are asked for as numbers.
    Bits,
    /// In quotes: dates, times, UUIDs, addresses.
    Quoted,
    /// Bytes in hexadecimal, read by this character set and compared by this collation.
    Text {
        character_set: String,
        collation: String,
    },
    Bytes,
}

/// A column of the key that pieces can end at.
#[derive(Clone, Debug)]
struct Part {
    /// Quoted.
    column: String,
    literal: Literal,
    descending: bool,
}

impl Part {
    /// The column as the server is asked for a value of it.
    fn selected(&self) -> String {
        match self.literal {
            Literal::Text { .. } | Literal::Bytes => format!("HEX({})", self.column),
            Literal::Bits => format!("{} + 0", self.column),
            Literal::Number | Literal::Quoted => self.column.clone(),
        }
    }

    /// The value that the server gave, as it is written to be compared with. None where it is not of its form.
    fn literal(&self, value: &Value) -> Option<String> {
        let Value::Bytes(bytes) = value else { return None };
        let text = std::str::from_utf8(bytes).ok()?;
        let all = |allowed: fn(&u8) -> bool| text.bytes().all(|byte| allowed(&byte));
        let hexadecimal = |text: &str| format!("X'{text}'");
        match &self.literal {
            Literal::Number | Literal::Bits => {
                let number = !text.is_empty() && all(|byte| byte.is_ascii_digit() || b"-.".contains(byte));
                number.then(|| text.to_owned())
            }
            Literal::Quoted => {
                all(|byte| byte.is_ascii_alphanumeric() || b"-:. ".contains(byte)).then(|| format!("'{text}'"))
            }
            Literal::Text { character_set, collation } if all(u8::is_ascii_hexdigit) => {
                Some(format!("_{character_set} {} COLLATE {collation}", hexadecimal(text)))
            }
            Literal::Bytes if all(u8::is_ascii_hexdigit) => Some(hexadecimal(text)),
            Literal::Text { .. } | Literal::Bytes => None,
        }
    }
}

/// A key's value, written as literals.
pub(super) type Bound = Vec<String>;

/// Rows from a value of the key on, up to another one that is not among them. None for no end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: Option<Bound>,
    pub(super) to: Option<Bound>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    From,
    After,
}

/// How a table is cut.
#[derive(Debug)]
pub(super) struct Cutter {
    table: TableName,
    /// The leading columns of the key as far as pieces can end at them; empty where the table is read in one piece.
    parts: Vec<Part>,
    /// One integer that tells rows apart.
    integer: bool,
    estimated_rows: u64,
    /// Rows that a piece should have.
    piece_rows: u64,
}

impl Cutter {
    pub(super) fn of(catalog: &CatalogTable, schema: &TableSchema, piece_rows: u64) -> Self {
        let mut parts = Vec::new();
        for key in &catalog.key {
            let column = schema.columns.iter().find(|column| column.name == key.column);
            let collation =
                catalog.columns.iter().find(|column| column.name == key.column).map(|found| &found.collation);
            let Some((column, collation)) = column.zip(collation) else { break };
            let literal = match (column.native.id, &column.native.character_set) {
                // An index of the first characters only has no order of whole values.
                _ if key.prefix => break,
                (
                    code::TINY
                    | code::SHORT
                    | code::INT24
                    | code::LONG
                    | code::LONGLONG
                    | code::YEAR
                    | code::NEWDECIMAL,
                    _,
                ) => Literal::Number,
                (code::BIT, _) => Literal::Bits,
                (code::DATE | code::TIME2 | code::DATETIME2 | code::TIMESTAMP2, _) => Literal::Quoted,
                (code::VARCHAR | code::STRING | code::BLOB, Some(character_set)) if !collation.is_empty() => {
                    Literal::Text { character_set: character_set.clone(), collation: collation.clone() }
                }
                // UUIDs and addresses of MariaDB.
                (code::STRING, _) if !column.native.name.starts_with("binary") => Literal::Quoted,
                (code::VARCHAR | code::STRING | code::BLOB, _) => Literal::Bytes,
                // ENUM and SET among them: they sort by number and compare with text as text.
                _ => break,
            };
            parts.push(Part { column: identifier(&column.name), literal, descending: key.descending });
        }
        let single = schema.key.len() == 1 && parts.len() == 1;
        let integer = single
            && schema.key_columns().all(|column| {
                matches!(column.native.id, code::TINY | code::SHORT | code::INT24 | code::LONG | code::LONGLONG)
            });
        let estimated_rows = catalog.estimated_rows.unwrap_or(0);
        Self { table: catalog.table.clone(), parts, integer, estimated_rows, piece_rows: piece_rows.max(1) }
    }

    /// ` FROM .. WHERE ..` for these rows.
    pub(super) fn rows_of(&self, range: &Range) -> String {
        let mut conditions = Vec::new();
        if let Some(from) = &range.from {
            conditions.push(self.condition(from, Side::From));
        }
        if let Some(to) = &range.to {
            conditions.push(self.condition(to, Side::Before));
        }
        self.rows_where(&conditions)
    }

    fn rows_where(&self, conditions: &[String]) -> String {
        // The order of the key is the order of the table, and the only one that a range can be read in.
        let index = if conditions.is_empty() { "" } else { " FORCE INDEX (PRIMARY)" };
        let conditions =
            if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        format!(" FROM {}{index}{conditions}", qualified(&self.table))
    }

    /// Rows on one side of the value: `(a > 1) OR (a = 1 AND b >= 2)`, and `a >= 1` once more, by which the optimizer finds
    /// its range.
    fn condition(&self, bound: &Bound, side: Side) -> String {
        let before = side == Side::Before;
        let mut alternatives = Vec::new();
        let mut equal = String::new();
        for (at, (part, value)) in self.parts.iter().zip(bound).enumerate() {
            let last = at + 1 == self.parts.len().min(bound.len());
            let sign = if before == part.descending { ">" } else { "<" };
            let or_equal = if last && side == Side::From { "=" } else { "" };
            alternatives.push(format!("({equal}{} {sign}{or_equal} {value})", part.column));
            equal = format!("{equal}{} = {value} AND ", part.column);
        }
        let all = format!("({})", alternatives.join(" OR "));
        match (self.parts.first(), bound.first()) {
            (Some(part), Some(value)) if alternatives.len() > 1 => {
                let sign = if before == part.descending { ">=" } else { "<=" };
                format!("{} {sign} {value} AND {all}", part.column)
            }
            _ => all,
        }
    }

    /// The next pieces from a value on, and where the rest begins that is still to be cut, if there is one.
    pub(super) async fn cut(&self, conn: &mut Conn, from: Option<Bound>) -> Result<(Vec<Range>, Option<Bound>)> {
        if self.parts.is_empty() {
            return Ok((vec![Range::default()], None));
        }
        if from.is_none()
            && self.integer
            && let Some(pieces) = self.divide(conn).await?
        {
            return Ok((pieces, None));
        }
        let to = self.value_after(conn, from.as_ref(), self.piece_rows).await?;
        Ok((vec![Range { from, to: to.clone() }], to))
    }

    /// The value of the key that this many rows come before.
    async fn value_after(&self, conn: &mut Conn, from: Option<&Bound>, rows: u64) -> Result<Option<Bound>> {
        let selected: Vec<String> = self.parts.iter().map(Part::selected).collect();
        let order = |part: &Part| format!("{}{}", part.column, if part.descending { " DESC" } else { "" });
        let order: Vec<String> = self.parts.iter().map(order).collect();
        // Where only the beginning of a key can be cut at, many rows may share it: so the rows after the value are counted, and
        // the next one is never the same.
        let conditions: Vec<String> = from.iter().map(|from| self.condition(from, Side::After)).collect();
        let index = if conditions.is_empty() { " FORCE INDEX (PRIMARY)" } else { "" };
        let sql = format!(
            "SELECT {}{}{index} ORDER BY {} LIMIT 1 OFFSET {}",
            selected.join(", "),
            self.rows_where(&conditions),
            order.join(", "),
            rows.saturating_sub(conditions.len().try_into().unwrap_or(0))
        );
        let row = self.first(conn, sql).await?;
        row.map(|row| self.bound(row)).transpose()
    }

    fn bound(&self, row: Row) -> Result<Bound> {
        let literals = self.parts.iter().zip(row.unwrap_raw());
        let literals = literals.map(|(part, value)| part.literal(&value.unwrap_or(Value::NULL)));
        literals.collect::<Option<Bound>>().ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                format!("a key of table {} came in a form that is not understood", self.table),
            )
        })
    }

    /// Divides the range of an integer key evenly. None where too few of the numbers are rows.
    async fn divide(&self, conn: &mut Conn) -> Result<Option<Vec<Range>>> {
        let Some(part) = self.parts.first() else { return Ok(None) };
        let sql = format!("SELECT MIN({0}), MAX({0}) FROM {1}", part.column, qualified(&self.table));
        let Some(row) = self.first(conn, sql).await? else { return Ok(None) };
        let mut ends = row.unwrap_raw().into_iter().map(|value| match value {
            Some(Value::Bytes(digits)) => std::str::from_utf8(&digits).ok()?.parse::<i128>().ok(),
            _ => None,
        });
        let (Some(Some(least)), Some(Some(greatest))) = (ends.next(), ends.next()) else {
            // No rows; but another connection's snapshot may have some.
            return Ok(Some(vec![Range::default()]));
        };
        let numbers = greatest.abs_diff(least) + 1;
        let rows = u128::from(self.estimated_rows.max(1)).min(numbers);
        if numbers / rows > SPARSE && numbers > u128::from(self.piece_rows) {
            return Ok(None);
        }
        let pieces = rows.div_ceil(self.piece_rows.into());
        let step = numbers.div_ceil(pieces);
        let bound = |piece: u128| vec![least.saturating_add_unsigned(piece.saturating_mul(step)).to_string()];
        // Neither the first nor the last has an end: the snapshots of other connections may hold other rows there.
        let ranges = (0..pieces).map(|piece| {
            let (low, high) = ((piece > 0).then(|| bound(piece)), (piece + 1 < pieces).then(|| bound(piece + 1)));
            if part.descending { Range { from: high, to: low } } else { Range { from: low, to: high } }
        });
        if part.descending {
            // A range there includes its greater end; by one less, pieces still meet without a gap.
            let lower = |bound: Option<Bound>| {
                bound.map(|bound| {
                    bound.iter().filter_map(|n| n.parse::<i128>().ok()).map(|n| (n - 1).to_string()).collect()
                })
            };
            return Ok(Some(ranges.map(|range| Range { from: lower(range.from), to: lower(range.to) }).collect()));
        }
        Ok(Some(ranges.collect()))
    }

    async fn first(&self, conn: &mut Conn, sql: String) -> Result<Option<Row>> {
        conn.query_first(sql).await.map_err(|error| read_error(&self.table, &error))
    }
}

/// What the server's refusals mean while tables are read.
pub(super) fn read_error(table: &TableName, error: &mysql_async::Error) -> Error {
    use crate::error::code::{TABLE_CHANGED, UNKNOWN_COLUMN, UNKNOWN_TABLE};
    let said = sql_error(format_args!("cannot read table {table}"), error);
    match crate::error::server_error(error).map(|server| server.code) {
        // The snapshot shows a table as it was; a change of it since then passes with another attempt.
        Some(TABLE_CHANGED | UNKNOWN_TABLE | UNKNOWN_COLUMN) => {
            Error::new(ErrorKind::Retry, format!("{said}; the table was altered or dropped by somebody"))
        }
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cutter(parts: &[(&str, bool)]) -> Cutter {
        let part = |(column, descending): &(&str, bool)| Part {
            column: identifier(column),
            literal: Literal::Number,
            descending: *descending,
        };
        let parts = parts.iter().map(part).collect();
        Cutter { table: TableName::new("d", "t"), parts, integer: false, estimated_rows: 0, piece_rows: 1 }
    }

    #[test]
    fn pieces_meet_without_a_gap_in_the_keys_own_order() {
        let bound = |values: &[&str]| Some(values.iter().map(|value| (*value).to_owned()).collect::<Bound>());
        let range = |from, to| Range { from, to };
        for (parts, range, expected) in [
            (&[("a", false)][..], range(None, None), ""),
            (
                &[("a", false)],
                range(bound(&["1"]), bound(&["9"])),
                " FORCE INDEX (PRIMARY) WHERE ((`a` >= 1)) AND ((`a` < 9))",
            ),
            (&[("a", true)], range(bound(&["9"]), None), " FORCE INDEX (PRIMARY) WHERE ((`a` <= 9))"),
            (&[("a", true)], range(None, bound(&["9"])), " FORCE INDEX (PRIMARY) WHERE ((`a` > 9))"),
            (
                &[("a", false), ("b", true)],
                range(bound(&["1", "2"]), bound(&["3", "4"])),
                " FORCE INDEX (PRIMARY) WHERE `a` >= 1 AND ((`a` > 1) OR (`a` = 1 AND `b` <= 2)) \
                 AND `a` <= 3 AND ((`a` < 3) OR (`a` = 3 AND `b` > 4))",
            ),
        ] {
            assert_eq!(cutter(parts).rows_of(&range), format!(" FROM `d`.`t`{expected}"));
        }
    }

    #[test]
    fn values_are_written_as_the_column_has_them() {
        let text = Literal::Text { character_set: "latin1".into(), collation: "latin1_german2_ci".into() };
        for (literal, value, expected) in [
            (Literal::Number, "-12.50", Some("-12.50")),
            (Literal::Number, "1 OR 1", None),
            (Literal::Number, "", None),
            (Literal::Quoted, "2024-02-29 12:00:00.5", Some("'2024-02-29 12:00:00.5'")),
            (Literal::Quoted, "x' OR '", None),
            (Literal::Bytes, "00FF", Some("X'00FF'")),
            (Literal::Bytes, "0x", None),
            (text.clone(), "61DF", Some("_latin1 X'61DF' COLLATE latin1_german2_ci")),
            (text, "", Some("_latin1 X'' COLLATE latin1_german2_ci")),
        ] {
            let part = Part { column: "`a`".into(), literal, descending: false };
            assert_eq!(part.literal(&Value::Bytes(value.into())).as_deref(), expected, "{value}");
        }
    }
}
