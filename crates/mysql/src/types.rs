//! Which column type of the lake each MySQL and MariaDB type becomes, and what a table map in the log says of such a column.
//!
//! The type is decided once, when a table is described. What has no type of its own in the lake is kept as the text that the
//! server prints for it, so nothing is lost.

use std::fmt;

use calve_core::{Column, ColumnType, NativeType, TableRules, TypeChoice};

use crate::charset::Charset;
use crate::conversions::Conversions;
use crate::server::Flavour;

/// Type codes of a table map, after the real type of ENUM, SET and CHAR was taken from its metadata (`field_types.h`).
pub(crate) mod code {
    pub(crate) const TINY: u32 = 1;
    pub(crate) const SHORT: u32 = 2;
    pub(crate) const LONG: u32 = 3;
    pub(crate) const FLOAT: u32 = 4;
    pub(crate) const DOUBLE: u32 = 5;
    pub(crate) const LONGLONG: u32 = 8;
    pub(crate) const INT24: u32 = 9;
    pub(crate) const DATE: u32 = 10;
    pub(crate) const YEAR: u32 = 13;
    pub(crate) const VARCHAR: u32 = 15;
    pub(crate) const BIT: u32 = 16;
    pub(crate) const TIMESTAMP2: u32 = 17;
    pub(crate) const DATETIME2: u32 = 18;
    pub(crate) const TIME2: u32 = 19;
    /// MariaDB only.
    pub(crate) const BLOB_COMPRESSED: u32 = 140;
    /// MariaDB only.
    pub(crate) const VARCHAR_COMPRESSED: u32 = 141;
    /// MySQL only.
    pub(crate) const VECTOR: u32 = 242;
    pub(crate) const JSON: u32 = 245;
    pub(crate) const NEWDECIMAL: u32 = 246;
    pub(crate) const ENUM: u32 = 247;
    pub(crate) const SET: u32 = 248;
    pub(crate) const BLOB: u32 = 252;
    pub(crate) const STRING: u32 = 254;
    pub(crate) const GEOMETRY: u32 = 255;
}

/// What [`NativeType::attributes`] holds of a column here.
pub(crate) mod attribute {
    pub(crate) const NOT_NULL: &str = "not null";
    pub(crate) const AUTO_INCREMENT: &str = "auto_increment";
    /// Computed from other columns.
    pub(crate) const GENERATED: &str = "generated";
    /// Text that a unique index other than the primary key may hold: by another collation rows may be equal. Once it is said of a
    /// column it stays.
    pub(crate) const UNIQUE: &str = "unique";
}

/// Says of all text columns that a unique index may hold them. Whether that is new of one.
pub(crate) fn say_unique(columns: &mut [Column]) -> bool {
    let is_said = |column: &Column| column.native.attributes.iter().any(|own| own == attribute::UNIQUE);
    let mut is_new = false;
    for column in columns.iter_mut().filter(|column| column.native.character_set.is_some() && !is_said(column)) {
        column.native.attributes.push(attribute::UNIQUE.to_owned());
        is_new = true;
    }
    is_new
}

/// A column's type as `information_schema.COLUMNS` has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CatalogType {
    /// `DATA_TYPE`, in lower case.
    pub(crate) data_type: String,
    /// `COLUMN_TYPE`.
    pub(crate) column_type: String,
    pub(crate) octet_length: Option<u64>,
    /// Digits; of BIT the bits.
    pub(crate) precision: Option<u64>,
    pub(crate) scale: Option<u64>,
    pub(crate) fraction_digits: Option<u64>,
    pub(crate) character_set: Option<String>,
}

/// Why a column cannot be replicated: what its type is, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// The lake has no type for it.
    Type(String),
    /// The type that was chosen for it is none that its values can become.
    Chosen { native: String, wanted: ColumnType, choice: TypeChoice },
}

impl fmt::Display for Unsupported {
    /// In words that follow the column's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(what) => write!(f, "is {what}, which the lake has no type for"),
            Self::Chosen { native, wanted, .. } => write!(f, "is {native}, which cannot be {wanted} in the lake"),
        }
    }
}

/// The types that a column may have in the lake, `own` being the one that belongs to its own. Text is what the server prints
/// where that is all of the value: of floating-point numbers it is not, and bytes have none.
pub(crate) fn choice(own: &ColumnType, native: &NativeType) -> TypeChoice {
    use ColumnType::{Boolean, Double, Int, Long, String, Uuid};
    let own_and = |others: &[ColumnType]| TypeChoice::of(std::iter::once(own.clone()).chain(others.iter().cloned()));
    match (native.id, own) {
        (code::TINY, _) if !native.name.contains("unsigned") => own_and(&[Int, Long, Boolean, String]),
        (code::TINY | code::SHORT | code::INT24 | code::LONG | code::LONGLONG, _) => own_and(&[Long, String]),
        (code::NEWDECIMAL, _) => own_and(&[String]).with_decimals(),
        (code::FLOAT, _) => own_and(&[Double]),
        (code::YEAR | code::DATE | code::TIME2 | code::DATETIME2 | code::TIMESTAMP2, _) | (_, Uuid) => {
            own_and(&[String])
        }
        _ => own_and(&[]),
    }
}

/// A column of a type, with what else is said of it in the words of [`attribute`]. Its `id` is still to be given.
///
/// A zero date becomes NULL even where the source allows none; in a key it stops the table. Where the pipeline wants that
/// everywhere, the column may be NULL all the same: so it can change its mind without loading anew. So it may where the `rules` of
/// its table have other values become NULL.
pub(crate) fn column(
    flavour: Flavour,
    conversions: &Conversions,
    rules: &TableRules,
    name: &str,
    catalog: &CatalogType,
    attributes: &[&str],
    in_key: bool,
) -> Result<Column, Unsupported> {
    let usage = rules.usage(name);
    let described = match column_type(flavour, conversions, catalog) {
        // Nothing of it is read, so that any type will do.
        Err(_) if usage.is_left_out() => {
            (ColumnType::Binary, NativeType::new(0, NO_MODIFIER, catalog.column_type.as_str()))
        }
        described => described?,
    };
    let (own, native) = described;
    let ty = match rules.column_type(name) {
        None => own,
        Some(_) if usage.is_left_out() => own,
        Some(wanted) => {
            let choice = choice(&own, &native);
            if !choice.allows(wanted) {
                return Err(Unsupported::Chosen { native: native.name, wanted: wanted.clone(), choice });
            }
            wanted.clone()
        }
    };
    let may_be_zero = matches!(ty, ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz);
    let may_be_null = may_be_zero || rules.may_become_null(name, in_key);
    let nullable = !in_key && (may_be_null || !attributes.contains(&attribute::NOT_NULL));
    let attributes = attributes.iter().map(|attribute| (*attribute).to_owned()).collect();
    Ok(Column { id: 0, name: name.to_owned(), ty, nullable, native: NativeType { attributes, ..native }, usage })
}

/// Digits of a decimal that 128 bits hold.
const DECIMAL_DIGITS: u8 = 38;
const NO_MODIFIER: i32 = -1;

/// The lake's type of a column, and its type in the log: the code, and as modifier the metadata of the table map as one number.
///
/// That is for DECIMAL `precision << 8 | scale`; for BIT the bits; for VARCHAR, CHAR and BINARY the octets;
/// for ENUM and SET the octets of a value; for BLOB, JSON, GEOMETRY and VECTOR the octets of the length; for FLOAT and DOUBLE the octets;
/// for times the digits of the fraction; 0 for types without metadata, -1 where the catalog does not tell.
pub(crate) fn column_type(
    flavour: Flavour,
    conversions: &Conversions,
    catalog: &CatalogType,
) -> Result<(ColumnType, NativeType), Unsupported> {
    let unsigned = catalog.column_type.contains(" unsigned");
    let integer = |id, narrow: ColumnType, wide: ColumnType| (if unsigned { wide } else { narrow }, id, 0);
    let (ty, id, modifier) = match catalog.data_type.as_str() {
        // The width means nothing to the server; people use it to say that a number is a truth value.
        "tinyint" if conversions.tinyint1_as_boolean && catalog.column_type == "tinyint(1)" => {
            (ColumnType::Boolean, code::TINY, 0)
        }
        "tinyint" => (ColumnType::Int, code::TINY, 0),
        "smallint" => (ColumnType::Int, code::SHORT, 0),
        "mediumint" => (ColumnType::Int, code::INT24, 0),
        "int" => integer(code::LONG, ColumnType::Int, ColumnType::Long),
        "bigint" => integer(code::LONGLONG, ColumnType::Long, ColumnType::Decimal { precision: 20, scale: 0 }),
        "float" => (ColumnType::Float, code::FLOAT, 4),
        "double" => (ColumnType::Double, code::DOUBLE, 8),
        "decimal" => decimal(catalog)?,
        "bit" => bit(catalog)?,
        "year" => (ColumnType::Int, code::YEAR, 0),
        "date" => (ColumnType::Date, code::DATE, 0),
        "time" => (ColumnType::Time, code::TIME2, fraction(catalog)),
        "datetime" => (ColumnType::Timestamp, code::DATETIME2, fraction(catalog)),
        "timestamp" => (ColumnType::TimestampTz, code::TIMESTAMP2, fraction(catalog)),
        "char" => (text(catalog)?, code::STRING, octets(catalog)),
        "binary" => (ColumnType::Binary, code::STRING, octets(catalog)),
        "varchar" if is_compressed(catalog) => (text(catalog)?, code::VARCHAR_COMPRESSED, NO_MODIFIER),
        "varchar" => (text(catalog)?, code::VARCHAR, octets(catalog)),
        "varbinary" if is_compressed(catalog) => (ColumnType::Binary, code::VARCHAR_COMPRESSED, NO_MODIFIER),
        "varbinary" => (ColumnType::Binary, code::VARCHAR, octets(catalog)),
        "tinytext" => (text(catalog)?, blob(catalog), 1),
        "text" => (text(catalog)?, blob(catalog), 2),
        "mediumtext" => (text(catalog)?, blob(catalog), 3),
        "longtext" => (text(catalog)?, blob(catalog), 4),
        "tinyblob" => (ColumnType::Binary, blob(catalog), 1),
        "blob" => (ColumnType::Binary, blob(catalog), 2),
        "mediumblob" => (ColumnType::Binary, blob(catalog), 3),
        "longblob" => (ColumnType::Binary, blob(catalog), 4),
        "enum" => (text(catalog)?, code::ENUM, if labels(&catalog.column_type) < 256 { 1 } else { 2 }),
        "set" => (text(catalog)?, code::SET, set_octets(labels(&catalog.column_type))),
        "json" => (ColumnType::String, code::JSON, 4),
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon"
        | "geomcollection" | "geometrycollection" => (ColumnType::Binary, code::GEOMETRY, 4),
        // MariaDB has it as bytes of one length, MySQL as one of up to so many.
        "vector" if flavour == Flavour::MariaDb => (ColumnType::Float.list(), code::VARCHAR, octets(catalog)),
        "vector" => (ColumnType::Float.list(), code::VECTOR, 4),
        "uuid" if flavour == Flavour::MariaDb => (ColumnType::Uuid, code::STRING, 16),
        "inet6" if flavour == Flavour::MariaDb => (ColumnType::String, code::STRING, 16),
        "inet4" if flavour == Flavour::MariaDb => (ColumnType::String, code::STRING, 4),
        _ => return Err(Unsupported::Type(catalog.column_type.clone())),
    };
    let native = NativeType {
        id,
        modifier,
        name: catalog.column_type.clone(),
        // Binary types have the character set `binary` in some catalogs, none in others.
        character_set: catalog.character_set.clone().filter(|_| ty == ColumnType::String && id != code::JSON),
        attributes: Vec::new(),
        element: None,
    };
    Ok((ty, native))
}

/// `decimal(p,s)` where 128 bits hold every such number, exact text otherwise.
fn decimal(catalog: &CatalogType) -> Result<(ColumnType, u32, i32), Unsupported> {
    let digits = |count: Option<u64>| count.and_then(|count| u8::try_from(count).ok());
    let (Some(precision), Some(scale)) = (digits(catalog.precision), digits(catalog.scale)) else {
        return Err(Unsupported::Type(catalog.column_type.clone()));
    };
    let fits = (1..=DECIMAL_DIGITS).contains(&precision) && scale <= precision;
    let ty = if fits { ColumnType::Decimal { precision, scale } } else { ColumnType::String };
    Ok((ty, code::NEWDECIMAL, (i32::from(precision) << 8) | i32::from(scale)))
}

fn bit(catalog: &CatalogType) -> Result<(ColumnType, u32, i32), Unsupported> {
    let bits = catalog.precision.and_then(|bits| i32::try_from(bits).ok()).unwrap_or(0);
    let ty = match bits {
        1 => ColumnType::Boolean,
        2..=63 => ColumnType::Long,
        64 => ColumnType::Decimal { precision: 20, scale: 0 },
        _ => return Err(Unsupported::Type(catalog.column_type.clone())),
    };
    Ok((ty, code::BIT, bits))
}

/// Text in a character set that can be decoded.
fn text(catalog: &CatalogType) -> Result<ColumnType, Unsupported> {
    match catalog.character_set.as_deref() {
        // ENUM and SET of bytes: their labels have no text.
        None | Some("binary") => Err(Unsupported::Type(format!("{} of bytes", catalog.data_type))),
        Some(name) if Charset::by_name(name).is_some() => Ok(ColumnType::String),
        Some(name) => Err(Unsupported::Type(format!("{} in the character set {name}", catalog.data_type))),
    }
}

fn is_compressed(catalog: &CatalogType) -> bool {
    // `varchar(10) /*M!100301 COMPRESSED*/`
    catalog.column_type.contains("COMPRESSED")
}

fn blob(catalog: &CatalogType) -> u32 {
    if is_compressed(catalog) { code::BLOB_COMPRESSED } else { code::BLOB }
}

fn octets(catalog: &CatalogType) -> i32 {
    catalog.octet_length.and_then(|octets| i32::try_from(octets).ok()).unwrap_or(NO_MODIFIER)
}

fn fraction(catalog: &CatalogType) -> i32 {
    catalog.fraction_digits.and_then(|digits| i32::try_from(digits).ok()).unwrap_or(0)
}

fn set_octets(labels: usize) -> i32 {
    match labels.div_ceil(8) {
        0 | 1 => 1,
        2 => 2,
        3 => 3,
        4 => 4,
        _ => 8,
    }
}

/// How many labels `enum('a','it''s')` has.
fn labels(column_type: &str) -> usize {
    let (mut count, mut quoted, mut escaped) = (0, false, false);
    for c in column_type.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            // A doubled quote ends a label and begins one, which is the same label.
            '\'' => quoted = !quoted,
            ',' if !quoted => count += 1,
            _ => {}
        }
    }
    count + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flavour: Flavour, column_type: &str, numbers: [u64; 4], character_set: &str) -> CatalogType {
        let _ = flavour;
        let [octets, precision, scale, fraction] = numbers;
        CatalogType {
            data_type: column_type.split(['(', ' ']).next().unwrap_or_default().to_owned(),
            column_type: column_type.to_owned(),
            octet_length: Some(octets),
            precision: Some(precision),
            scale: Some(scale),
            fraction_digits: Some(fraction),
            character_set: Some(character_set.to_owned()).filter(|name| !name.is_empty()),
        }
    }

    #[test]
    fn each_type_has_its_place() {
        use Flavour::{MariaDb, MySql};
        let unsigned = ColumnType::Decimal { precision: 20, scale: 0 };
        for (flavour, name, numbers, character_set, ty, id, modifier) in [
            (MySql, "tinyint(1)", [0; 4], "", ColumnType::Int, 1, 0),
            (MySql, "mediumint unsigned", [0; 4], "", ColumnType::Int, 9, 0),
            (MySql, "int", [0; 4], "", ColumnType::Int, 3, 0),
            (MariaDb, "int(10) unsigned zerofill", [0; 4], "", ColumnType::Long, 3, 0),
            (MySql, "bigint", [0; 4], "", ColumnType::Long, 8, 0),
            (MySql, "bigint unsigned", [0; 4], "", unsigned.clone(), 8, 0),
            (MySql, "float", [0; 4], "", ColumnType::Float, 4, 4),
            (MySql, "double unsigned", [0; 4], "", ColumnType::Double, 5, 8),
            (MySql, "decimal(10,2)", [0, 10, 2, 0], "", ColumnType::Decimal { precision: 10, scale: 2 }, 246, 0x0A02),
            (MySql, "decimal(65,30)", [0, 65, 30, 0], "", ColumnType::String, 246, 0x411E),
            (MySql, "bit(1)", [0, 1, 0, 0], "", ColumnType::Boolean, 16, 1),
            (MySql, "bit(12)", [0, 12, 0, 0], "", ColumnType::Long, 16, 12),
            (MySql, "bit(64)", [0, 64, 0, 0], "", unsigned, 16, 64),
            (MySql, "datetime(3)", [0, 0, 0, 3], "", ColumnType::Timestamp, 18, 3),
            (MySql, "timestamp", [0; 4], "", ColumnType::TimestampTz, 17, 0),
            (MySql, "time(6)", [0, 0, 0, 6], "", ColumnType::Time, 19, 6),
            (MySql, "year", [0; 4], "", ColumnType::Int, 13, 0),
            (MySql, "char(10)", [40, 0, 0, 0], "utf8mb4", ColumnType::String, 254, 40),
            (MySql, "varbinary(7)", [7, 0, 0, 0], "", ColumnType::Binary, 15, 7),
            (MySql, "mediumtext", [16_777_215, 0, 0, 0], "latin1", ColumnType::String, 252, 3),
            (MySql, "json", [0; 4], "", ColumnType::String, 245, 4),
            (MySql, "enum('a','it''s, \\\\')", [4, 0, 0, 0], "utf8mb4", ColumnType::String, 247, 1),
            (MySql, "set('a','b','c','d','e','f','g','h','i')", [9, 0, 0, 0], "utf8mb4", ColumnType::String, 248, 2),
            (MySql, "point", [0; 4], "", ColumnType::Binary, 255, 4),
            (MariaDb, "text /*M!100301 COMPRESSED*/", [0; 4], "utf8mb4", ColumnType::String, 140, 2),
            (MariaDb, "varchar(9) /*M!100301 COMPRESSED*/", [36, 0, 0, 0], "utf8mb4", ColumnType::String, 141, -1),
            (MariaDb, "uuid", [0; 4], "", ColumnType::Uuid, 254, 16),
            (MySql, "vector(3)", [12, 0, 0, 0], "", ColumnType::Float.list(), 242, 4),
            (MariaDb, "vector(3)", [12, 0, 0, 0], "", ColumnType::Float.list(), 15, 12),
            (MariaDb, "inet4", [0; 4], "", ColumnType::String, 254, 4),
        ] {
            let (found, native) =
                column_type(flavour, &Conversions::default(), &of(flavour, name, numbers, character_set)).expect(name);
            assert_eq!((found, native.id, native.modifier), (ty, id, modifier), "{name}");
            let expected = Some(character_set.to_owned()).filter(|name| !name.is_empty());
            assert_eq!((native.name.as_str(), native.character_set), (name, expected));
        }
    }

    #[test]
    fn only_a_signed_tinyint_of_width_1_can_be_a_boolean() {
        let conversions = Conversions { tinyint1_as_boolean: true, ..Conversions::default() };
        for (name, expected) in [
            ("tinyint(1)", ColumnType::Boolean),
            ("tinyint(1) unsigned", ColumnType::Int),
            ("tinyint(4)", ColumnType::Int),
            ("tinyint", ColumnType::Int),
            ("smallint(1)", ColumnType::Int),
        ] {
            let catalog = of(Flavour::MySql, name, [0; 4], "");
            assert_eq!(column_type(Flavour::MySql, &conversions, &catalog).unwrap().0, expected, "{name}");
        }
    }

    #[test]
    fn a_type_may_be_chosen_that_the_values_can_become() {
        for (name, numbers, wanted, choice) in [
            ("int", [0; 4], "long", Ok(())),
            ("int unsigned", [0; 4], "string", Ok(())),
            ("bigint unsigned", [0; 4], "long", Ok(())),
            ("bigint unsigned", [0; 4], "int", Err("decimal(20,0), long, string")),
            ("tinyint", [0; 4], "boolean", Ok(())),
            ("tinyint unsigned", [0; 4], "boolean", Err("int, long, string")),
            ("decimal(50,2)", [0, 50, 2, 0], "decimal(38,2)", Ok(())),
            ("decimal(5,2)", [0, 5, 2, 0], "double", Err("decimal(5,2), string, decimal(p,s)")),
            ("float", [0; 4], "double", Ok(())),
            ("double", [0; 4], "string", Err("double")),
            ("time", [0; 4], "string", Ok(())),
            ("datetime", [0; 4], "date", Err("timestamp, string")),
            ("bit(8)", [0, 8, 0, 0], "string", Err("long")),
            ("blob", [0; 4], "string", Err("binary")),
        ] {
            let ty: ColumnType = wanted.parse().unwrap();
            let chosen = calve_core::ColumnRules { ty: Some(ty.clone()), ..Default::default() };
            let rules = TableRules { columns: [("c".to_owned(), chosen)].into(), ..TableRules::default() };
            let catalog = of(Flavour::MySql, name, numbers, "");
            let found = column(Flavour::MySql, &Conversions::default(), &rules, "c", &catalog, &[], false);
            match (found, choice) {
                (Ok(column), Ok(())) => assert_eq!(column.ty, ty, "{name}"),
                (Err(Unsupported::Chosen { choice, .. }), Err(expected)) => assert_eq!(choice.to_string(), expected),
                (found, _) => panic!("{name} as {wanted}: {found:?}"),
            }
        }
    }

    #[test]
    fn what_the_lake_cannot_hold_is_refused() {
        for (flavour, name, character_set) in [
            (Flavour::MySql, "hypercube", ""),
            (Flavour::MySql, "uuid", ""),
            (Flavour::MySql, "varchar(3)", "klingon"),
            (Flavour::MySql, "enum('a')", "binary"),
        ] {
            let catalog = of(flavour, name, [3, 0, 0, 0], character_set);
            assert!(column_type(flavour, &Conversions::default(), &catalog).is_err(), "{name}");
        }
    }

    #[test]
    fn labels_are_counted() {
        let many: Vec<String> = (0..256).map(|n| format!("'{n}'")).collect();
        for (text, count) in [
            ("enum('a')".to_owned(), 1),
            ("enum('a','b')".to_owned(), 2),
            ("set('it''s',''',')".to_owned(), 2),
            (r"enum('\\','\',')".to_owned(), 2),
            (format!("enum({})", many.join(",")), 256),
        ] {
            assert_eq!(labels(&text), count, "{text}");
        }
    }
}
