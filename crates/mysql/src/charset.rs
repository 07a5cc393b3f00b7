//! Text in every character set of both servers, decoded to UTF-8 as the servers themselves would convert it.
//!
//! The log and the snapshot reader bring the bytes that are stored. What the servers make of them is in tables taken from the
//! servers, so that no difference between two definitions of Shift JIS or Big5 is left to find.

mod generated;
mod tables;
mod unicode;

use std::fmt;

use tables::Table;

/// A character set. Two of the same name are equal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charset {
    name: &'static str,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `utf8mb4` and `utf8mb3`; `ascii` is checked for being just that.
    Utf8 {
        ascii: bool,
    },
    /// Two bytes a character, the high one first.
    Ucs2,
    Utf16 {
        little: bool,
    },
    Utf32,
    Gb18030,
    /// Its place in the generated tables.
    Table(usize),
}

/// Bytes that are no text in their character set. They are not shown: they are somebody's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes that are no text in the character set {0}")]
pub(crate) struct InvalidText(pub(crate) &'static str);

const UNICODE: [(&str, Form); 9] = [
    ("utf8mb4", Form::Utf8 { ascii: false }),
    ("utf8mb3", Form::Utf8 { ascii: false }),
    // What utf8mb3 was called before it was named so.
    ("utf8", Form::Utf8 { ascii: false }),
    ("ascii", Form::Utf8 { ascii: true }),
    ("ucs2", Form::Ucs2),
    ("utf16", Form::Utf16 { little: false }),
    ("utf16le", Form::Utf16 { little: true }),
    ("utf32", Form::Utf32),
    ("gb18030", Form::Gb18030),
];

impl Charset {
    /// The set of this name, as `CHARACTER_SET_NAME` has it. None for `binary` and for sets that neither server has.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let known = |known: &str| known.eq_ignore_ascii_case(name);
        if let Some((name, form)) = UNICODE.iter().find(|(name, _)| known(name)) {
            let name = if *name == "utf8" { "utf8mb3" } else { name };
            return Some(Self { name, form: *form });
        }
        let index = generated::SETS.iter().position(|(name, _)| known(name))?;
        generated::SETS.get(index).map(|(name, _)| Self { name, form: Form::Table(index) })
    }

    /// The set of a collation, by its number in a table map. None for `binary` (63) and for numbers of neither server.
    pub(crate) fn by_collation_id(id: u32) -> Option<Self> {
        let id = u16::try_from(id).ok()?;
        let after = generated::COLLATIONS.partition_point(|(first, ..)| *first <= id);
        let (_, last, name) = generated::COLLATIONS.get(after.checked_sub(1)?)?;
        if id <= *last { Self::by_name(name) } else { None }
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// Whether the bytes are UTF-8 as they are stored, if they are text at all.
    pub(crate) fn is_utf8(self) -> bool {
        matches!(self.form, Form::Utf8 { .. })
    }

    /// The text, where the bytes are UTF-8 already; None where they are to be decoded.
    pub(crate) fn as_utf8(self, bytes: &[u8]) -> Result<Option<&str>, InvalidText> {
        match self.form {
            Form::Utf8 { ascii: true } if !bytes.is_ascii() => Err(InvalidText(self.name)),
            Form::Utf8 { .. } => std::str::from_utf8(bytes).map(Some).map_err(|_| InvalidText(self.name)),
            _ => Ok(None),
        }
    }

    /// Appends the text to `out` as UTF-8. What was appended before an error is to be taken back by the caller.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidText> {
        let decoded = match self.form {
            Form::Utf8 { .. } => self.as_utf8(bytes)?.map(|text| out.extend_from_slice(text.as_bytes())),
            Form::Ucs2 => unicode::ucs2(bytes, out),
            Form::Utf16 { little } => unicode::utf16(bytes, little, out),
            Form::Utf32 => unicode::utf32(bytes, out),
            Form::Gb18030 => unicode::gb18030(bytes, out),
            Form::Table(index) => Table::of(index).and_then(|table| table.decode(bytes, out)),
        };
        decoded.ok_or(InvalidText(self.name))
    }
}

/// `information_schema.CHARACTER_SETS.MAXLEN`: lengths are in characters where a type is written, in bytes in the log.
pub(crate) fn bytes_per_character(charset: &str) -> u32 {
    match charset {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => 4,
        "utf8mb3" | "utf8" | "ujis" | "eucjpms" => 3,
        "big5" | "sjis" | "cp932" | "euckr" | "gb2312" | "gbk" | "ucs2" => 2,
        _ => 1,
    }
}

/// The character set that a collation is named after, as catalogs name it. None for names that name none, such as
/// `uca1400_ai_ci` of MariaDB, which is one of whatever set the column has.
pub(crate) fn of_collation(collation: &str) -> Option<String> {
    let set = collation.split('_').next().unwrap_or_default();
    catalog_name(set)
}

/// The name that catalogs have for a character set. None for what is not known.
pub(crate) fn catalog_name(name: &str) -> Option<String> {
    if name.eq_ignore_ascii_case("binary") {
        return Some("binary".to_owned());
    }
    Charset::by_name(name).map(|charset| charset.name().to_owned())
}

impl fmt::Debug for Charset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(all(test, feature = "servers"))]
mod server_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, bytes: &[u8], expected: Option<&str>) {
        let mut out = b"before".to_vec();
        let charset = Charset::by_name(name).expect(name);
        let decoded = charset.decode(bytes, &mut out).ok().map(|()| String::from_utf8_lossy(&out[6..]).into_owned());
        assert_eq!(decoded.as_deref(), expected, "{name} {bytes:02x?}");
    }

    #[test]
    fn text_of_every_kind_is_decoded() {
        for (name, bytes, expected) in [
            ("utf8mb4", &b"a\xf0\x9f\xa7\x8a"[..], Some("a🧊")),
            ("utf8mb3", b"\xc3\xbc", Some("ü")),
            ("UTF8", b"\xc3\xbc", Some("ü")),
            ("utf8mb4", b"\xc3", None),
            ("ascii", b"abc", Some("abc")),
            ("ascii", b"\xc3\xbc", None),
            // cp1252 with control characters where that has holes.
            ("latin1", b"\x80\x81\xfc", Some("€\u{81}ü")),
            ("latin2", b"\xb3", Some("ł")),
            ("koi8r", b"\xf2\xd5\xd3", Some("Рус")),
            ("cp1250", b"\x81", None),
            ("swe7", b"[\\]", Some("ÄÖÅ")),
            ("swe7", b"\x80", None),
            ("ucs2", b"\x00a\x20\xac", Some("a€")),
            ("ucs2", b"\xd8\x3e", None),
            ("ucs2", b"\x00", None),
            ("utf16", b"\x00a\xd8\x3e\xdd\xca", Some("a🧊")),
            ("utf16", b"\xd8\x3e", None),
            ("utf16le", b"a\x00\x3e\xd8\xca\xdd", Some("a🧊")),
            ("utf32", b"\x00\x01\xf9\xca", Some("🧊")),
            ("utf32", b"\x00\x11\x00\x00", None),
            ("gbk", b"a\xd6\xd0\xce\xc4", Some("a中文")),
            ("gbk", b"\xd6", None),
            ("gbk", b"\xff\xff", None),
            ("gb2312", b"\xd6\xd0", Some("中")),
            ("gb18030", b"\xd6\xd0\x95\x30\xdf\x36", Some("中🧊")),
            ("gb18030", b"a\xa3\xa0b\x84\x31\x82\x36", Some("a\u{e5e5}b\u{fe10}")),
            ("gb18030", b"\x94\x39", None),
            ("gb18030", b"\x80", None),
            ("big5", b"\xa4\xa4", Some("中")),
            ("sjis", b"\x93\xfa\x96\x7b\xb1", Some("日本ｱ")),
            ("cp932", b"\x87\x40", Some("①")),
            ("ujis", b"\xc6\xfc\x8e\xb1\x8f\xb0\xa1", Some("日ｱ丂")),
            ("eucjpms", b"\xad\xa1", Some("①")),
            ("euckr", b"\xb0\xa1", Some("가")),
            ("latin1", b"", Some("")),
        ] {
            check(name, bytes, expected);
        }
    }

    #[test]
    fn collations_belong_to_their_sets() {
        for (id, name) in [
            (8, Some("latin1")),
            (28, Some("gbk")),
            (33, Some("utf8mb3")),
            (45, Some("utf8mb4")),
            (63, None),
            (0, None),
            (255, Some("utf8mb4")),
            (248, Some("gb18030")),
            (1069, Some("utf8mb4")),
            (2304, Some("utf8mb4")),
            (65_535, None),
            (70_000, None),
        ] {
            assert_eq!(Charset::by_collation_id(id).map(Charset::name), name, "{id}");
        }
        assert!(generated::COLLATIONS.windows(2).all(|pair| pair[0].1 < pair[1].0), "runs are in order");
        let unknown =
            generated::COLLATIONS.iter().find(|(_, _, name)| *name != "binary" && Charset::by_name(name).is_none());
        assert_eq!(unknown, None);
        assert_eq!(Charset::by_name("binary"), None);
    }
}
