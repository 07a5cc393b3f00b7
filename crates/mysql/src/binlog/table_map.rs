//! The shape of a table as the log tells it, before the first row event that has it.
//!
//! What every server sends is the columns' types with a number or two of detail each, and which may be NULL. The rest is
//! optional metadata: of it MySQL sends signedness, character sets and geometry types by default, MariaDB nothing, and both
//! everything with `binlog_row_metadata = FULL` (`Table_map_event`, "Optional metadata fields").

use super::Flavour;
use super::wire::{Bits, Malformed, Reader};

const WHAT: &str = "a table map";

/// Numbers of column types (`field_types.h`), as they are after [`Shape`] resolved those that hide behind STRING.
pub(crate) mod code {
    pub(crate) const DECIMAL: u8 = 0;
    pub(crate) const TINY: u8 = 1;
    pub(crate) const SHORT: u8 = 2;
    pub(crate) const LONG: u8 = 3;
    pub(crate) const FLOAT: u8 = 4;
    pub(crate) const DOUBLE: u8 = 5;
    pub(crate) const NULL: u8 = 6;
    pub(crate) const TIMESTAMP: u8 = 7;
    pub(crate) const LONGLONG: u8 = 8;
    pub(crate) const INT24: u8 = 9;
    pub(crate) const DATE: u8 = 10;
    pub(crate) const TIME: u8 = 11;
    pub(crate) const DATETIME: u8 = 12;
    pub(crate) const YEAR: u8 = 13;
    pub(crate) const NEWDATE: u8 = 14;
    pub(crate) const VARCHAR: u8 = 15;
    pub(crate) const BIT: u8 = 16;
    pub(crate) const TIMESTAMP2: u8 = 17;
    pub(crate) const DATETIME2: u8 = 18;
    pub(crate) const TIME2: u8 = 19;
    pub(crate) const BLOB_COMPRESSED: u8 = 140;
    pub(crate) const VARCHAR_COMPRESSED: u8 = 141;
    pub(crate) const VECTOR: u8 = 242;
    pub(crate) const JSON: u8 = 245;
    pub(crate) const NEWDECIMAL: u8 = 246;
    pub(crate) const ENUM: u8 = 247;
    pub(crate) const SET: u8 = 248;
    pub(crate) const TINY_BLOB: u8 = 249;
    pub(crate) const MEDIUM_BLOB: u8 = 250;
    pub(crate) const LONG_BLOB: u8 = 251;
    pub(crate) const BLOB: u8 = 252;
    pub(crate) const VAR_STRING: u8 = 253;
    pub(crate) const STRING: u8 = 254;
    pub(crate) const GEOMETRY: u8 = 255;
}

/// The shape of a table.
#[derive(Debug)]
pub(crate) struct TableMap<'a> {
    /// What row events name it by, until the next map under this id or the end of the statement.
    pub(crate) id: u64,
    pub(crate) database: &'a str,
    pub(crate) table: &'a str,
    pub(crate) columns: Vec<Shape>,
    /// Which columns may be NULL.
    pub(crate) nullable: Bits<'a>,
    /// What of it was sent.
    pub(crate) optional: Optional<'a>,
    /// A type that is not understood: what follows it of the metadata was not read, and rows cannot be. Nothing is lost where
    /// nobody follows the table.
    pub(super) unknown: Option<u8>,
}

/// A column's type, as rows have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// See [`code`].
    pub(crate) code: u8,
    /// By type: bytes at most of a CHAR, BINARY or VARCHAR; bytes of the length before a BLOB and its kin; bytes of an ENUM,
    /// SET or floating-point number; decimals of seconds; bits of a BIT; `precision << 8 | scale` of a DECIMAL. Else 0.
    pub(crate) modifier: u16,
}

/// What a server may say of a table beyond its types.
#[derive(Debug, Default)]
pub(crate) struct Optional<'a> {
    /// By column: whether it is unsigned; None of columns that are no numbers, and where it was not sent.
    pub(crate) unsigned: Vec<Option<bool>>,
    /// By column: collation id; None of columns without text, and where it was not sent.
    pub(crate) collation: Vec<Option<u64>>,
    /// By column. Empty where not sent.
    pub(crate) names: Vec<&'a str>,
    /// By column: labels of an ENUM or SET, in its own character set.
    pub(crate) labels: Vec<Option<Vec<&'a [u8]>>>,
    /// Columns of the primary key in its order, and how much of each counts (0 = all). None where not sent, or without a key.
    pub(crate) primary_key: Option<Vec<(usize, u64)>>,
}

impl<'a> TableMap<'a> {
    pub(super) fn parse(flavour: Flavour, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, WHAT);
        let id = reader.uint(6)?;
        let _flags = reader.u16()?;
        let database = reader.packed_bytes()?;
        let database = reader.utf8(database)?;
        reader.u8()?;
        let table = reader.packed_bytes()?;
        let table = reader.utf8(table)?;
        reader.u8()?;
        let count = reader.packed_usize()?;
        let types = reader.take(count)?;
        let mut details = Reader::new(reader.packed_bytes()?, "the column metadata of a table map");
        let nullable = reader.bits(count)?;
        let mut columns = Vec::with_capacity(count);
        for code in types {
            let Some(shape) = shape(*code, &mut details)? else {
                let optional = Optional::default();
                return Ok(Self { id, database, table, columns, nullable, optional, unknown: Some(*code) });
            };
            columns.push(shape);
        }
        details.end()?;
        let optional = Optional::parse(flavour, &columns, reader)?;
        Ok(Self { id, database, table, columns, nullable, optional, unknown: None })
    }
}

/// Reads a type's part of the metadata (`Field::save_field_metadata`); None where it is not understood.
fn shape(code: u8, details: &mut Reader<'_>) -> Result<Option<Shape>, Malformed> {
    let (code, modifier) = match code {
        code::FLOAT
        | code::DOUBLE
        | code::TIMESTAMP2
        | code::DATETIME2
        | code::TIME2
        | code::TINY_BLOB
        | code::MEDIUM_BLOB
        | code::LONG_BLOB
        | code::BLOB
        | code::BLOB_COMPRESSED
        | code::JSON
        | code::GEOMETRY
        | code::VECTOR => (code, details.u8()?.into()),
        code::VARCHAR | code::VARCHAR_COMPRESSED => (code, details.u16()?),
        code::BIT => {
            let [bits, bytes] = details.array()?;
            (code, u16::from(bytes) * 8 + u16::from(bits))
        }
        // Big-endian, as it were: precision, scale.
        code::NEWDECIMAL => (code, u16::from_be_bytes(details.array()?)),
        code::STRING | code::VAR_STRING | code::ENUM | code::SET => {
            let [real, low] = details.array()?;
            string(code, real, low)
        }
        code::DECIMAL
        | code::TINY
        | code::SHORT
        | code::LONG
        | code::NULL
        | code::TIMESTAMP
        | code::LONGLONG
        | code::INT24
        | code::DATE
        | code::TIME
        | code::DATETIME
        | code::YEAR
        | code::NEWDATE => (code, 0),
        _ => return Ok(None),
    };
    Ok(Some(Shape { code, modifier }))
}

/// ENUM, SET and CHAR all come as STRING, with the real type in the first byte. A CHAR of more than 255 bytes has the upper
/// two bits of its length there as well, inverted, where the real type's are always set (`Field_string::save_field_metadata`).
fn string(code: u8, real: u8, low: u8) -> (u8, u16) {
    match real {
        0 => (code, low.into()),
        code::ENUM | code::SET => (real, low.into()),
        _ if real & 0x30 != 0x30 => (real | 0x30, u16::from(low) | u16::from(!real & 0x30) << 4),
        _ => (real, low.into()),
    }
}

impl Shape {
    /// Columns that signedness is sent of, YEAR among them.
    fn is_numeric(self) -> bool {
        matches!(
            self.code,
            code::TINY
                | code::SHORT
                | code::INT24
                | code::LONG
                | code::LONGLONG
                | code::FLOAT
                | code::DOUBLE
                | code::DECIMAL
                | code::NEWDECIMAL
                | code::YEAR
        )
    }

    /// Columns that character sets are sent of, those of bytes among them. MariaDB counts GEOMETRY among them, and its compressed columns.
    fn is_text(self, flavour: Flavour) -> bool {
        match self.code {
            code::STRING
            | code::VAR_STRING
            | code::VARCHAR
            | code::TINY_BLOB
            | code::MEDIUM_BLOB
            | code::LONG_BLOB
            | code::BLOB
            | code::VECTOR => true,
            code::GEOMETRY | code::VARCHAR_COMPRESSED | code::BLOB_COMPRESSED => flavour == Flavour::MariaDb,
            _ => false,
        }
    }

    fn is_labels(self) -> bool {
        matches!(self.code, code::ENUM | code::SET)
    }
}

impl<'a> Optional<'a> {
    /// Fields of a type, a length and a value, up to the end.
    fn parse(flavour: Flavour, columns: &[Shape], mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let mut optional = Self::default();
        while !reader.is_empty() {
            let field = reader.u8()?;
            let value = Reader::new(reader.packed_bytes()?, "the optional metadata of a table map");
            match field {
                1 => optional.signedness(columns, value)?,
                2 => optional.default_collation(columns, value, |shape| shape.is_text(flavour))?,
                3 => optional.each_collation(columns, value, |shape| shape.is_text(flavour))?,
                10 => optional.default_collation(columns, value, Shape::is_labels)?,
                11 => optional.each_collation(columns, value, Shape::is_labels)?,
                4 => optional.column_names(columns, value)?,
                5 => optional.labels(columns, value, code::SET)?,
                6 => optional.labels(columns, value, code::ENUM)?,
                8 => optional.primary_key(columns, value, false)?,
                9 => optional.primary_key(columns, value, true)?,
                // Subtypes of geometries, visibility of columns, dimensions of vectors: rows are read alike. Each field has
                // its length so that readers can pass over those of later versions.
                _ => {}
            }
        }
        Ok(optional)
    }

    /// A bit for each numeric column, highest bit first: set where it is unsigned.
    fn signedness(&mut self, columns: &[Shape], value: Reader<'_>) -> Result<(), Malformed> {
        let bytes = value.rest();
        let mut place = 0;
        self.unsigned.clear();
        for shape in columns {
            self.unsigned.push(if shape.is_numeric() {
                let byte = bytes.get(place / 8).ok_or(Malformed::Short { what: "the signedness in a table map" })?;
                let unsigned = byte << (place % 8) & 0x80 != 0;
                place += 1;
                Some(unsigned)
            } else {
                None
            });
        }
        Ok(())
    }

    fn collations(&mut self, columns: &[Shape]) -> &mut [Option<u64>] {
        self.collation.resize(columns.len(), None);
        &mut self.collation
    }

    /// One collation for all columns of a group, then those that have another: place in the group, collation.
    fn default_collation(
        &mut self,
        columns: &[Shape],
        mut value: Reader<'_>,
        group: impl Fn(Shape) -> bool,
    ) -> Result<(), Malformed> {
        let default = value.packed()?;
        let mut members: Vec<&mut Option<u64>> =
            columns.iter().zip(self.collations(columns)).filter(|(s, _)| group(**s)).map(|(_, c)| c).collect();
        for member in &mut members {
            **member = Some(default);
        }
        while !value.is_empty() {
            let place = value.packed()?;
            let collation = value.packed()?;
            let member = usize::try_from(place).ok().and_then(|place| members.get_mut(place));
            **member.ok_or(Malformed::Value { what: "place of a column with text", value: place })? = Some(collation);
        }
        Ok(())
    }

    /// A collation for every column of a group.
    fn each_collation(
        &mut self,
        columns: &[Shape],
        mut value: Reader<'_>,
        group: impl Fn(Shape) -> bool,
    ) -> Result<(), Malformed> {
        for (_, collation) in columns.iter().zip(self.collations(columns)).filter(|(shape, _)| group(**shape)) {
            *collation = Some(value.packed()?);
        }
        value.end()
    }

    fn column_names(&mut self, columns: &[Shape], mut value: Reader<'a>) -> Result<(), Malformed> {
        self.names.clear();
        for _ in columns {
            let name = value.packed_bytes()?;
            self.names.push(value.utf8(name)?);
        }
        value.end()
    }

    /// For every column of this type a count of labels, and each label.
    fn labels(&mut self, columns: &[Shape], mut value: Reader<'a>, of: u8) -> Result<(), Malformed> {
        self.labels.resize(columns.len(), None);
        for (_, labels) in columns.iter().zip(&mut self.labels).filter(|(shape, _)| shape.code == of) {
            let count = value.packed()?;
            let mut list = Vec::new();
            for _ in 0..count {
                list.push(value.packed_bytes()?);
            }
            *labels = Some(list);
        }
        value.end()
    }

    fn primary_key(&mut self, columns: &[Shape], mut value: Reader<'_>, prefixes: bool) -> Result<(), Malformed> {
        let mut key = Vec::new();
        while !value.is_empty() {
            let column = value.packed()?;
            let prefix = if prefixes { value.packed()? } else { 0 };
            let place = usize::try_from(column).ok().filter(|column| *column < columns.len());
            key.push((place.ok_or(Malformed::Value { what: "column of the primary key", value: column })?, prefix));
        }
        self.primary_key = Some(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of another kind of server, which somebody else follows.
    #[test]
    fn types_that_are_not_understood_fail_nobody_else() {
        let body = b"\x07\0\0\0\0\0\x01\0\x01d\0\x01t\0\x03\x03\xf4\x0f\x05\xaa\xbb\xcc\x14\0\x06\x01\x01\x80";
        let map = TableMap::parse(Flavour::MySql, body).unwrap();
        assert_eq!((map.id, map.database, map.table, map.unknown), (7, "d", "t", Some(0xf4)));
        assert!(TableMap::parse(Flavour::MySql, &body[..20]).is_err());
    }

    #[test]
    fn strings_hide_other_types_and_long_lengths() {
        for (real, low, expected) in [
            (0xfe, 0x14, (code::STRING, 20)),
            // CHAR(255) of utf8mb4: 1020 = 0x3fc bytes.
            (0xce, 0xfc, (code::STRING, 1020)),
            (0xee, 0x2c, (code::STRING, 300)),
            (0xde, 0x00, (code::STRING, 512)),
            (0xf7, 0x01, (code::ENUM, 1)),
            (0xf8, 0x08, (code::SET, 8)),
        ] {
            assert_eq!(string(code::STRING, real, low), expected, "{real:#x} {low:#x}");
        }
    }
}
