//! A column's type as a statement writes it, and what the catalog shows of it: synonyms resolved, what is left out filled in.

use calve_core::NativeType;

use super::cursor::{Cursor, split_at_commas};
use super::token::Token;
use crate::binlog::native::DeclaredType;
use crate::charset;
use crate::server::Flavour;
use crate::types::CatalogType;

/// A type, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "words that are there or not")]
pub(crate) struct WrittenType {
    /// In the words of the catalog: `int`, `varchar`, `enum`.
    base: String,
    /// In its parentheses.
    numbers: Vec<u32>,
    labels: Vec<String>,
    unsigned: bool,
    zerofill: bool,
    /// Of bytes, whatever else is said: `CHAR BYTE`.
    bytes: bool,
    /// As it is written; `default` for the table's.
    character_set: Option<String>,
    collation: Option<String>,
    compressed: bool,
}

/// Bytes that TINYTEXT, TEXT and MEDIUMTEXT hold, and the blobs of the same sizes.
const SIZES: [(&str, u64); 4] = [("tiny", 0xff), ("", 0xffff), ("medium", 0xff_ffff), ("long", 0xffff_ffff)];
/// Bytes of a row, and so of a column, that is stored with it.
const LONGEST_ROW: u32 = 65_535;

/// Numbers of a vector of MySQL that names none.
const VECTOR_NUMBERS: u32 = 2048;

impl WrittenType {
    /// What SERIAL is short for, but for its attributes.
    pub(super) fn serial() -> Self {
        Self { unsigned: true, ..Self::of("bigint") }
    }

    /// A text column's type after its table was converted to another character set: a TEXT becomes one that holds as many
    /// characters. None where it is no text.
    pub(super) fn converted(native: &NativeType, character_set: &str) -> Option<Self> {
        let declared = DeclaredType::parse(&native.name)?;
        let mut ty = Self {
            base: declared.base,
            numbers: declared.numbers,
            labels: declared.labels.into_iter().map(String::from).collect(),
            compressed: declared.comment.contains("COMPRESSED"),
            character_set: Some(character_set.to_owned()),
            ..Self::default()
        };
        let size = SIZES.iter().find(|(size, _)| ty.base == format!("{size}text")).map(|(_, bytes)| bytes);
        if let Some(bytes) = size {
            let width = |name: &str| u64::from(charset::bytes_per_character(name));
            let needed = bytes / width(native.character_set.as_deref()?) * width(character_set);
            let larger = SIZES.iter().find(|(_, holds)| needed <= *holds).or(SIZES.last());
            ty.base = format!("{}text", larger.map_or("long", |(size, _)| *size));
        }
        // The servers do not convert labels right, so theirs are not known where that matters.
        (ty.is_text() && ty.labels.iter().all(|label| label.is_ascii())).then_some(ty)
    }

    fn of(base: &str) -> Self {
        Self { base: base.to_owned(), ..Self::default() }
    }

    /// Reads the type up to the end of its parentheses. None where it is not known.
    pub(super) fn read(cursor: &mut Cursor<'_>, real_as_float: bool) -> Option<Self> {
        let Token::Word(word) = cursor.next()? else { return None };
        let mut ty = Self::named(&word.to_ascii_uppercase(), cursor, real_as_float)?;
        if cursor.0.first().is_some_and(|token| token.is_sign('(')) {
            if !ty.numbers.is_empty() {
                return None;
            }
            ty.arguments(cursor.parenthesised()?)?;
        }
        Some(ty)
    }

    /// By its first word, and those that belong to it.
    fn named(word: &str, cursor: &mut Cursor<'_>, real_as_float: bool) -> Option<Self> {
        let national = |base| Self { character_set: Some("utf8mb3".to_owned()), ..Self::of(base) };
        Some(match word {
            "TINYINT" | "INT1" => Self::of("tinyint"),
            "SMALLINT" | "INT2" => Self::of("smallint"),
            "MEDIUMINT" | "INT3" | "MIDDLEINT" => Self::of("mediumint"),
            "INT" | "INTEGER" | "INT4" => Self::of("int"),
            "BIGINT" | "INT8" => Self::of("bigint"),
            "BOOL" | "BOOLEAN" => Self { numbers: vec![1], ..Self::of("tinyint") },
            "DECIMAL" | "DEC" | "NUMERIC" | "FIXED" => Self::of("decimal"),
            "FLOAT" | "FLOAT4" => Self::of("float"),
            "REAL" if real_as_float => Self::of("float"),
            "REAL" | "FLOAT8" => Self::of("double"),
            "DOUBLE" => {
                cursor.skip("PRECISION");
                Self::of("double")
            }
            "CHAR" | "CHARACTER" => Self::of(if cursor.skip("VARYING") { "varchar" } else { "char" }),
            "VARCHAR" | "VARCHARACTER" => Self::of("varchar"),
            "NVARCHAR" => national("varchar"),
            "NCHAR" => national(if cursor.skip("VARYING") || cursor.skip("VARCHAR") { "varchar" } else { "char" }),
            "NATIONAL" if cursor.skip("VARCHAR") || cursor.skip("VARCHARACTER") => national("varchar"),
            "NATIONAL" if cursor.skip("CHAR") || cursor.skip("CHARACTER") => {
                national(if cursor.skip("VARYING") { "varchar" } else { "char" })
            }
            "LONG" if cursor.skip("VARBINARY") => Self::of("mediumblob"),
            "LONG" => {
                let _ = cursor.skip("VARCHAR")
                    || cursor.skip("VARCHARACTER")
                    || cursor.skip_all(&["CHAR", "VARYING"])
                    || cursor.skip_all(&["CHARACTER", "VARYING"]);
                Self::of("mediumtext")
            }
            "GEOMETRYCOLLECTION" | "GEOMCOLLECTION" => Self::of("geometrycollection"),
            "BIT" | "YEAR" | "DATE" | "TIME" | "DATETIME" | "TIMESTAMP" | "BINARY" | "VARBINARY" | "TINYTEXT"
            | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" | "ENUM" | "SET"
            | "JSON" | "GEOMETRY" | "POINT" | "LINESTRING" | "POLYGON" | "MULTIPOINT" | "MULTILINESTRING"
            | "MULTIPOLYGON" | "UUID" | "INET4" | "INET6" | "VECTOR" => Self::of(&word.to_ascii_lowercase()),
            _ => return None,
        })
    }

    fn arguments(&mut self, tokens: &[Token]) -> Option<()> {
        let is_labelled = self.is_labelled();
        for argument in split_at_commas(tokens) {
            match argument {
                // The servers take spaces at the end of labels away.
                [Token::Text(label)] if is_labelled => {
                    let label = std::str::from_utf8(label).ok()?;
                    self.labels.push(label.trim_end_matches(' ').to_owned());
                }
                [Token::Word(digits)] if !is_labelled => self.numbers.push(digits.parse().ok()?),
                _ => return None,
            }
        }
        Some(())
    }

    fn is_labelled(&self) -> bool {
        matches!(self.base.as_str(), "enum" | "set")
    }

    /// Reads an attribute if it is one of the type; whether it was. None where it is begun and not understood.
    pub(super) fn attribute(&mut self, cursor: &mut Cursor<'_>) -> Option<bool> {
        let named = |cursor: &mut Cursor<'_>| {
            cursor.skip_sign('=');
            let name = cursor.next()?;
            match name {
                Token::Text(text) => std::str::from_utf8(text).ok().map(str::to_ascii_lowercase),
                _ => name.name().map(str::to_ascii_lowercase),
            }
        };
        if cursor.skip("UNSIGNED") {
            self.unsigned = true;
        } else if cursor.skip("ZEROFILL") {
            (self.unsigned, self.zerofill) = (true, true);
        } else if cursor.skip("SIGNED") {
        } else if cursor.skip_all(&["CHARACTER", "SET"]) || cursor.skip_all(&["CHAR", "SET"]) || cursor.skip("CHARSET")
        {
            self.character_set = Some(named(cursor)?);
        } else if cursor.skip("COLLATE") {
            self.collation = Some(named(cursor)?);
        } else if cursor.skip("ASCII") {
            self.character_set = Some("latin1".to_owned());
        } else if cursor.skip("UNICODE") {
            self.character_set = Some("ucs2".to_owned());
        } else if cursor.skip("BYTE") {
            self.bytes = true;
        } else if cursor.skip("BINARY") {
            // Of the collation.
        } else if cursor.skip("COMPRESSED") {
            self.compressed = true;
            if cursor.skip_sign('=') {
                cursor.name()?;
            }
        } else if cursor.skip("SRID") {
            cursor.number()?;
        } else if cursor.skip("REF_SYSTEM_ID") {
            cursor.skip_sign('=');
            cursor.number()?;
        } else {
            return Some(false);
        }
        Some(true)
    }

    /// Whether a collation is named, by itself or as that of a character set that is.
    pub(super) fn names_collation(&self) -> bool {
        self.collation.is_some() || self.character_set.is_some()
    }

    /// Whether values are text in a character set.
    fn is_text(&self) -> bool {
        self.base.ends_with("text") || matches!(self.base.as_str(), "char" | "varchar" | "enum" | "set")
    }

    /// The character set that the column gets where `table` is the table's. An error says what is not known.
    fn resolved_character_set(&self, table: Option<&str>) -> Result<String, String> {
        if self.bytes {
            return Ok("binary".to_owned());
        }
        let known = |name: &str| charset::catalog_name(name).ok_or_else(|| format!("the character set {name}"));
        match (&self.character_set, self.collation.as_deref().and_then(charset::of_collation)) {
            (Some(name), _) if name != "default" => known(name),
            (None, Some(name)) => Ok(name),
            _ => table
                .map(str::to_owned)
                .ok_or_else(|| "which character set the table's columns have that name none".to_owned()),
        }
    }

    /// The type as the catalog has it. An error says what of it is not known.
    pub(super) fn in_catalog(&self, flavour: Flavour, table: Option<&str>) -> Result<CatalogType, String> {
        let mut ty = self.clone();
        if ty.base == "json" && flavour == Flavour::MariaDb {
            ty = Self { character_set: Some("utf8mb4".to_owned()), ..Self::of("longtext") };
        }
        let mut character_set = None;
        if ty.is_text() {
            let name = ty.resolved_character_set(table)?;
            if name == "binary" && !ty.is_labelled() {
                ty.base = of_bytes(&ty.base).to_owned();
            } else {
                character_set = Some(name);
            }
        }
        let width = character_set.as_deref().map_or(1, charset::bytes_per_character);
        // A number of a vector takes four bytes.
        let width = if ty.base == "vector" { 4 } else { width };
        ty.fill_in(flavour, width)?;
        let number = |index: usize| ty.numbers.get(index).map(|number| u64::from(*number));
        let is_time = matches!(ty.base.as_str(), "time" | "datetime" | "timestamp");
        Ok(CatalogType {
            data_type: ty.base.clone(),
            column_type: ty.shown(flavour),
            octet_length: number(0).map(|length| length * u64::from(width)),
            precision: number(0),
            scale: number(1),
            fraction_digits: number(0).filter(|_| is_time),
            character_set,
        })
    }

    /// Fills in what a type has where the statement leaves it out. `width`: bytes of a character at most.
    fn fill_in(&mut self, flavour: Flavour, width: u32) -> Result<(), String> {
        let not_known = |ty: &Self| Err(format!("the type {}", ty.shown(flavour)));
        match (self.base.as_str(), self.numbers.as_slice()) {
            ("char" | "binary" | "bit", []) | ("bit", [0]) => self.numbers = vec![1],
            ("decimal", [] | [0]) => self.numbers = vec![10, 0],
            ("decimal", [precision]) => self.numbers = vec![*precision, 0],
            ("float", [..=24]) | ("time" | "datetime" | "timestamp", [0]) | ("year", [] | [4]) => self.numbers.clear(),
            ("float", [_]) => *self = Self { unsigned: self.unsigned, zerofill: self.zerofill, ..Self::of("double") },
            ("varchar" | "varbinary", [length]) if length.saturating_mul(width) <= LONGEST_ROW => {}
            ("vector", []) if flavour == Flavour::MySql => self.numbers = vec![VECTOR_NUMBERS],
            ("vector", [_]) => {}
            ("varchar" | "varbinary" | "year" | "vector", _) => return not_known(self),
            ("text" | "blob", [length]) => {
                let bytes = u64::from(*length) * u64::from(width);
                let sized = SIZES.iter().find(|(_, size)| bytes <= *size);
                let Some((size, _)) = sized else { return not_known(self) };
                (self.base, self.numbers) = (format!("{size}{}", self.base), Vec::new());
            }
            ("enum" | "set", _) if self.labels.is_empty() => return not_known(self),
            ("uuid" | "inet4" | "inet6", _) if flavour == Flavour::MySql => return not_known(self),
            _ => {}
        }
        if flavour == Flavour::MySql && self.base == "geometrycollection" {
            "geomcollection".clone_into(&mut self.base);
        }
        Ok(())
    }

    /// `COLUMN_TYPE` of the catalog.
    fn shown(&self, flavour: Flavour) -> String {
        let mut text = self.base.clone();
        if self.is_labelled() {
            let labels: Vec<String> = self.labels.iter().map(|label| quoted(label)).collect();
            text = format!("{text}({})", labels.join(","));
        } else if let Some(width) = self.display_width(flavour) {
            text = format!("{text}({width})");
        } else if !self.numbers.is_empty() && !self.is_integer() {
            let numbers: Vec<String> = self.numbers.iter().map(ToString::to_string).collect();
            text = format!("{text}({})", numbers.join(","));
        } else if self.base == "year" && flavour == Flavour::MariaDb {
            text.push_str("(4)");
        }
        for (word, said) in [(" unsigned", self.unsigned), (" zerofill", self.zerofill)] {
            if said {
                text.push_str(word);
            }
        }
        if self.compressed {
            text.push_str(" /*M!100301 COMPRESSED*/");
        }
        text
    }

    fn is_integer(&self) -> bool {
        matches!(self.base.as_str(), "tinyint" | "smallint" | "mediumint" | "int" | "bigint")
    }

    /// MariaDB shows the width of every integer; MySQL, which takes no notice of it, only where zeros fill it, and that of
    /// TINYINT(1).
    fn display_width(&self, flavour: Flavour) -> Option<u32> {
        if !self.is_integer() {
            return None;
        }
        let given = self.numbers.first().copied();
        if flavour == Flavour::MySql && !self.zerofill {
            return given.filter(|width| *width == 1 && self.base == "tinyint" && !self.unsigned);
        }
        let (signed, unsigned) = match self.base.as_str() {
            "tinyint" => (4, 3),
            "smallint" => (6, 5),
            "mediumint" => (9, 8),
            "int" => (11, 10),
            _ => (20, 20),
        };
        Some(given.unwrap_or(if self.unsigned { unsigned } else { signed }))
    }
}

/// The type of bytes that stands for a type of text whose character set is `binary`.
fn of_bytes(base: &str) -> &str {
    match base {
        "char" => "binary",
        "varchar" => "varbinary",
        "tinytext" => "tinyblob",
        "mediumtext" => "mediumblob",
        "longtext" => "longblob",
        _ => "blob",
    }
}

/// A label as the catalog quotes it (`append_unescaped` of the servers).
fn quoted(label: &str) -> String {
    let mut text = String::from("'");
    for c in label.chars() {
        match c {
            '\'' => text.push_str("''"),
            '\\' => text.push_str("\\\\"),
            '\0' => text.push_str("\\0"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            c => text.push(c),
        }
    }
    text.push('\'');
    text
}
