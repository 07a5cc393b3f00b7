//! Which column type of the lake each Postgres type becomes.
//!
//! The type is decided once, when a table is described, from the base type under any domain. What has no type of its own
//! in the lake is kept as the text that the server prints for it, so nothing is lost.

use calve_core::ColumnType;

/// Numbers of built-in types (`pg_type.oid`), fixed for ever by Postgres.
pub(crate) mod oid {
    pub(crate) const BOOL: u32 = 16;
    pub(crate) const BYTEA: u32 = 17;
    pub(crate) const NAME: u32 = 19;
    pub(crate) const INT8: u32 = 20;
    pub(crate) const INT2: u32 = 21;
    pub(crate) const INT4: u32 = 23;
    pub(crate) const TEXT: u32 = 25;
    pub(crate) const OID: u32 = 26;
    pub(crate) const JSON: u32 = 114;
    pub(crate) const FLOAT4: u32 = 700;
    pub(crate) const FLOAT8: u32 = 701;
    pub(crate) const BPCHAR: u32 = 1042;
    pub(crate) const VARCHAR: u32 = 1043;
    pub(crate) const DATE: u32 = 1082;
    pub(crate) const TIME: u32 = 1083;
    pub(crate) const TIMESTAMP: u32 = 1114;
    pub(crate) const TIMESTAMPTZ: u32 = 1184;
    pub(crate) const NUMERIC: u32 = 1700;
    pub(crate) const UUID: u32 = 2950;
    pub(crate) const JSONB: u32 = 3802;
}

/// The lake's type for a Postgres base type and its modifier (`atttypmod`, or `typtypmod` of the domain; -1 for none).
pub(crate) fn column_type(base: u32, modifier: i32) -> ColumnType {
    match base {
        oid::BOOL => ColumnType::Boolean,
        oid::INT2 | oid::INT4 => ColumnType::Int,
        oid::INT8 | oid::OID => ColumnType::Long,
        oid::FLOAT4 => ColumnType::Float,
        oid::FLOAT8 => ColumnType::Double,
        oid::NUMERIC => numeric_type(modifier),
        oid::BYTEA => ColumnType::Binary,
        oid::DATE => ColumnType::Date,
        oid::TIME => ColumnType::Time,
        oid::TIMESTAMP => ColumnType::Timestamp,
        oid::TIMESTAMPTZ => ColumnType::TimestampTz,
        oid::UUID => ColumnType::Uuid,
        _ => ColumnType::String,
    }
}

/// `numeric(p,s)` where a 128-bit decimal holds every such number, exact text otherwise.
///
/// The modifier is `(p << 16 | s & 0x7ff) + 4`, with `s` in 11 bits of two's complement (`numeric.c`, `make_numeric_typmod`).
fn numeric_type(modifier: i32) -> ColumnType {
    let Some(packed) = modifier.checked_sub(4).filter(|packed| *packed >= 0) else { return ColumnType::String };
    let precision = (packed >> 16) & 0xffff;
    let scale = ((packed & 0x7ff) ^ 1024) - 1024;
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => ColumnType::Decimal { precision, scale },
        _ => ColumnType::String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_are_decimals_where_all_of_them_fit() {
        let modifier = |precision: i32, scale: i32| (precision << 16 | scale & 0x7ff) + 4;
        for (precision, scale, expected) in [
            (10, 2, Some((10, 2))),
            (1, 0, Some((1, 0))),
            (38, 38, Some((38, 38))),
            (39, 0, None),
            (1000, 10, None),
            (5, -2, None),
            (3, 5, None),
        ] {
            let expected =
                expected.map_or(ColumnType::String, |(precision, scale)| ColumnType::Decimal { precision, scale });
            assert_eq!(column_type(oid::NUMERIC, modifier(precision, scale)), expected, "numeric({precision},{scale})");
        }
        for without in [-1, 0, 3, i32::MIN] {
            assert_eq!(column_type(oid::NUMERIC, without), ColumnType::String, "modifier {without}");
        }
    }
}
