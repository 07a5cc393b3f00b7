//! Character sets that columns are decoded from: those whose text is UTF-8 or nearly so.

/// Bytes that are no text of their character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidText;

/// A character set of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    Utf8Mb4,
    Utf8Mb3,
    Ascii,
    Latin1,
}

impl Charset {
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "utf8mb4" => Self::Utf8Mb4,
            "utf8mb3" | "utf8" => Self::Utf8Mb3,
            "ascii" => Self::Ascii,
            "latin1" => Self::Latin1,
            _ => return None,
        })
    }

    /// By the collation's number (`information_schema.COLLATIONS.ID`).
    pub(crate) fn by_collation_id(id: u32) -> Option<Self> {
        Some(match id {
            // MariaDB numbers its UCA 14.0.0 collations by character set from 2048 on, utf8mb3 first.
            45 | 46 | 224..=247 | 255..=323 | 1070 | 1238..=1240 | 2304..=2559 => Self::Utf8Mb4,
            33 | 76 | 83 | 192..=215 | 223 | 2048..=2303 => Self::Utf8Mb3,
            11 | 65 => Self::Ascii,
            5 | 8 | 15 | 31 | 47 | 48 | 49 | 94 => Self::Latin1,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8Mb4 => "utf8mb4",
            Self::Utf8Mb3 => "utf8mb3",
            Self::Ascii => "ascii",
            Self::Latin1 => "latin1",
        }
    }

    pub(crate) fn is_utf8(self) -> bool {
        matches!(self, Self::Utf8Mb4 | Self::Utf8Mb3 | Self::Ascii)
    }

    /// The text itself, where its bytes are UTF-8 as they are.
    pub(crate) fn as_utf8(self, bytes: &[u8]) -> Result<Option<&str>, InvalidText> {
        match self {
            Self::Utf8Mb4 | Self::Utf8Mb3 => std::str::from_utf8(bytes).map(Some).map_err(|_| InvalidText),
            Self::Ascii if !bytes.is_ascii() => Err(InvalidText),
            Self::Ascii => std::str::from_utf8(bytes).map(Some).map_err(|_| InvalidText),
            Self::Latin1 => Ok(None),
        }
    }

    /// Appends the text as UTF-8.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidText> {
        if self == Self::Latin1 {
            // The server's latin1 is Windows-1252 with the five holes mapped to themselves.
            let (text, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes);
            out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let text = self.as_utf8(bytes)?.ok_or(InvalidText)?;
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
