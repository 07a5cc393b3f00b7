//! Which column type of the lake each Postgres type becomes.
//!
//! The type is decided once, when a table is described, from the base type under any domain. What has no type of its own
//! in the lake is kept as the text that the server prints for it, so nothing is lost.

use calve_core::{Column, ColumnType, NativeElement, NativeType, TableRules, TypeChoice};

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

/// Arrays of the types that a column is followed to when they grow, by their numbers and those of their elements.
const ARRAYS: [(u32, u32); 11] = [
    (1005, oid::INT2),
    (1007, oid::INT4),
    (1009, oid::TEXT),
    (1015, oid::VARCHAR),
    (1016, oid::INT8),
    (1021, oid::FLOAT4),
    (1022, oid::FLOAT8),
    (1115, oid::TIMESTAMP),
    (1183, oid::TIME),
    (1185, oid::TIMESTAMPTZ),
    (1231, oid::NUMERIC),
];

/// What the elements of such an array are.
pub(crate) fn element_of(id: u32) -> Option<u32> {
    ARRAYS.iter().find(|(array, _)| *array == id).map(|(_, element)| *element)
}

/// The lake's type for a Postgres base type and its modifier (`atttypmod`, or `typtypmod` of the domain; -1 for none), by these
/// numbers alone.
pub(crate) fn built_in_type(base: u32, modifier: i32) -> ColumnType {
    match element_of(base) {
        Some(element) => single_type(element, modifier).list(),
        None => single_type(base, modifier),
    }
}

/// As [`built_in_type`], of what is no array.
pub(crate) fn single_type(base: u32, modifier: i32) -> ColumnType {
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

/// The types that a column may have in the lake, which has the one that belongs to its own. Under a domain only that is known of
/// what it is, so there is less to choose from.
pub(crate) fn choice(column: &Column) -> TypeChoice {
    let own = column.ty.clone();
    match column.native.id {
        oid::INT2 | oid::INT4 => TypeChoice::of([own, ColumnType::Long, ColumnType::String]),
        oid::NUMERIC => TypeChoice::of([own, ColumnType::Long, ColumnType::String]).with_decimals(),
        oid::FLOAT4 => TypeChoice::of([own, ColumnType::Double, ColumnType::String]),
        _ => TypeChoice::of([own, ColumnType::String]),
    }
}

/// The column as the lake shall get it, with the type that was chosen for it where it may have it.
pub(crate) fn chosen(column: &Column, rules: &TableRules) -> Column {
    let wanted = rules.column_type(&column.name).filter(|wanted| choice(column).allows(wanted));
    let ty = wanted.unwrap_or(&column.ty).clone();
    Column { ty, usage: rules.usage(&column.name), ..column.clone() }
}

/// `numeric(p,s)` where a 128-bit decimal holds every such number, exact text otherwise.
fn numeric_type(modifier: i32) -> ColumnType {
    let Some((precision, scale)) = numeric_modifier(modifier) else { return ColumnType::String };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => ColumnType::Decimal { precision, scale },
        _ => ColumnType::String,
    }
}

/// Precision and scale of a numeric, where it has them. The modifier is `(p << 16 | s & 0x7ff) + 4`, with `s` in 11 bits of
/// two's complement (`numeric.c`, `make_numeric_typmod`).
fn numeric_modifier(modifier: i32) -> Option<(i32, i32)> {
    let packed = modifier.checked_sub(4).filter(|packed| *packed >= 0)?;
    Some(((packed >> 16) & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024))
}

/// A type that came with Postgres and has no base type, by its numbers alone, named as `format_type` names it.
///
/// Of those that a column is followed to when its type grows; of any other the name is its number.
pub(crate) fn built_in(id: u32, modifier: i32) -> NativeType {
    if let Some(element) = element_of(id) {
        let name = format!("{}[]", built_in(element, modifier).name);
        let element = Some(NativeElement { id: element, delimiter: ',' });
        return NativeType { element, ..NativeType::new(id, modifier, name) };
    }
    let precision = |name: &str, zone: &str| match modifier {
        ..0 => format!("{name}{zone}"),
        digits => format!("{name}({digits}){zone}"),
    };
    let name = match id {
        oid::INT2 => "smallint".to_owned(),
        oid::INT4 => "integer".to_owned(),
        oid::INT8 => "bigint".to_owned(),
        oid::FLOAT4 => "real".to_owned(),
        oid::FLOAT8 => "double precision".to_owned(),
        oid::TEXT => "text".to_owned(),
        oid::VARCHAR if modifier >= 4 => format!("character varying({})", modifier - 4),
        oid::VARCHAR => "character varying".to_owned(),
        oid::NUMERIC => match numeric_modifier(modifier) {
            Some((precision, scale)) => format!("numeric({precision},{scale})"),
            None => "numeric".to_owned(),
        },
        oid::TIME => precision("time", " without time zone"),
        oid::TIMESTAMP => precision("timestamp", " without time zone"),
        oid::TIMESTAMPTZ => precision("timestamp", " with time zone"),
        other => format!("type {other}"),
    };
    NativeType::new(id, modifier, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `select format_type(oid, modifier)` prints them.
    #[test]
    fn built_in_types_are_named_as_the_server_names_them() {
        for (id, modifier, name) in [
            (oid::INT2, -1, "smallint"),
            (oid::INT4, -1, "integer"),
            (oid::INT8, -1, "bigint"),
            (oid::FLOAT4, -1, "real"),
            (oid::FLOAT8, -1, "double precision"),
            (oid::TEXT, -1, "text"),
            (oid::VARCHAR, -1, "character varying"),
            (oid::VARCHAR, 24, "character varying(20)"),
            (oid::NUMERIC, -1, "numeric"),
            (oid::NUMERIC, (12 << 16 | 2) + 4, "numeric(12,2)"),
            (oid::TIME, 3, "time(3) without time zone"),
            (oid::TIMESTAMP, -1, "timestamp without time zone"),
            (oid::TIMESTAMPTZ, 0, "timestamp(0) with time zone"),
        ] {
            assert_eq!(built_in(id, modifier), NativeType::new(id, modifier, name));
        }
        for (id, modifier, name) in [(1007, -1, "integer[]"), (1185, 3, "timestamp(3) with time zone[]")] {
            assert_eq!(built_in(id, modifier).name, name);
            assert_eq!(built_in(id, modifier).element.map(|element| element.id), element_of(id));
        }
    }

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
            assert_eq!(
                built_in_type(oid::NUMERIC, modifier(precision, scale)),
                expected,
                "numeric({precision},{scale})"
            );
        }
        for without in [-1, 0, 3, i32::MIN] {
            assert_eq!(built_in_type(oid::NUMERIC, without), ColumnType::String, "modifier {without}");
        }
    }
}
