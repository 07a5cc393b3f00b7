//! Partial updates of JSON documents (`binlog_row_value_options = PARTIAL_JSON`): what the log has of the document after an
//! update is a list of changes to the one before (`Json_diff_vector::read_binary`).
//!
//! Only the containers on the way to a change are unpacked; everything else stays as it was stored.

use std::borrow::Cow;

use calve_core::ColumnBuffer;

use super::json::{self, Container, DEPTH_MAX, Value};
use super::json_text;
use super::value::{CellError, malformed};
use super::wire::Reader;

const MALFORMED: CellError = malformed("a list of changes to the document before");

/// Appends the document that results from the changes, as text.
pub(crate) fn push_changed(
    before: &[u8],
    changes: &[u8],
    text: &mut Vec<u8>,
    out: &mut ColumnBuffer,
) -> Result<(), CellError> {
    let mut document = Node::Stored(Value::document(before)?);
    let mut reader = Reader::new(changes, "a change of a document");
    while !reader.is_empty() {
        let operation = reader.u8()?;
        let path = path(reader.packed_bytes()?)?;
        match operation {
            0 => document.replace(&path, Node::Stored(Value::document(reader.packed_bytes()?)?))?,
            1 => document.insert(&path, Node::Stored(Value::document(reader.packed_bytes()?)?))?,
            2 => document.remove(&path)?,
            _ => return Err(MALFORMED),
        }
    }
    text.clear();
    document.write(1, json::text_limit(before.len().saturating_add(changes.len())), text)?;
    json::push_text(text, out)
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Leg {
    Member(Vec<u8>),
    Cell(usize),
    /// Counted from the last, which is 0.
    FromEnd(usize),
}

/// `$`, then `.name`, `."any name"`, `[3]`, `[last]`, `[last-3]` (`Json_path::to_string`).
fn path(text: &[u8]) -> Result<Vec<Leg>, CellError> {
    let text = std::str::from_utf8(text).map_err(|_| MALFORMED)?;
    let mut rest = text.strip_prefix('$').ok_or(MALFORMED)?;
    let mut legs = Vec::new();
    while !rest.is_empty() {
        if legs.len() > DEPTH_MAX {
            return Err(MALFORMED);
        }
        if let Some(inside) = rest.strip_prefix('[') {
            let (index, after) = inside.split_once(']').ok_or(MALFORMED)?;
            legs.push(cell(index.trim()).ok_or(MALFORMED)?);
            rest = after;
        } else {
            let name = rest.strip_prefix('.').ok_or(MALFORMED)?;
            if name.starts_with('"') {
                let mut parser = serde_json::Deserializer::from_str(name).into_iter::<String>();
                let member = parser.next().and_then(Result::ok).ok_or(MALFORMED)?;
                rest = name.get(parser.byte_offset()..).ok_or(MALFORMED)?;
                legs.push(Leg::Member(member.into_bytes()));
            } else {
                let end = name.find(['.', '[']).unwrap_or(name.len());
                let (member, after) = name.split_at(end);
                legs.push(Leg::Member(member.as_bytes().to_vec()));
                rest = after;
            }
        }
    }
    Ok(legs)
}

fn cell(index: &str) -> Option<Leg> {
    match index.strip_prefix("last") {
        None => index.parse().ok().map(Leg::Cell),
        Some("") => Some(Leg::FromEnd(0)),
        Some(back) => back.trim().strip_prefix('-')?.trim().parse().ok().map(Leg::FromEnd),
    }
}

/// A document, unpacked as far as it was changed.
#[derive(Debug)]
enum Node<'a> {
    Stored(Value<'a>),
    /// In the server's order: short keys first, then by their bytes.
    Object(Vec<(Cow<'a, [u8]>, Node<'a>)>),
    Array(Vec<Node<'a>>),
}

impl<'a> Node<'a> {
    fn unpack(&mut self) -> Result<(), CellError> {
        let members = |container: &Container<'a>| 0..container.len();
        match self {
            Self::Stored(Value::Object(object)) => {
                let object = *object;
                let member = |index| Ok((Cow::Borrowed(object.key(index)?), Node::Stored(object.value(index)?)));
                *self = Self::Object(members(&object).map(member).collect::<Result<_, CellError>>()?);
            }
            Self::Stored(Value::Array(array)) => {
                let array = *array;
                let element = |index| Ok(Node::Stored(array.value(index)?));
                *self = Self::Array(members(&array).map(element).collect::<Result<_, CellError>>()?);
            }
            Self::Stored(_) | Self::Object(_) | Self::Array(_) => {}
        }
        Ok(())
    }

    /// The node at the end of a path. A value that is no array counts as an array of itself.
    fn seek(&mut self, path: &[Leg]) -> Result<&mut Self, CellError> {
        let mut node = self;
        for leg in path {
            node.unpack()?;
            node = match (node, leg) {
                (Self::Object(members), Leg::Member(name)) => {
                    let member = members.iter_mut().find(|(key, _)| **key == **name);
                    &mut member.ok_or(MALFORMED)?.1
                }
                (Self::Array(elements), Leg::Cell(_) | Leg::FromEnd(_)) => {
                    let place = place(leg, elements.len()).ok_or(MALFORMED)?;
                    elements.get_mut(place).ok_or(MALFORMED)?
                }
                (other, Leg::Cell(0) | Leg::FromEnd(0)) => other,
                _ => return Err(MALFORMED),
            };
        }
        Ok(node)
    }

    fn replace(&mut self, path: &[Leg], value: Self) -> Result<(), CellError> {
        *self.seek(path)? = value;
        Ok(())
    }

    fn insert(&mut self, path: &[Leg], value: Self) -> Result<(), CellError> {
        let (last, parent) = path.split_last().ok_or(MALFORMED)?;
        let parent = self.seek(parent)?;
        parent.unpack()?;
        match (parent, last) {
            (Self::Object(members), Leg::Member(name)) => {
                let order = |key: &[u8]| key.len().cmp(&name.len()).then_with(|| key.cmp(name));
                match members.binary_search_by(|(key, _)| order(key)) {
                    Ok(_) => Err(MALFORMED),
                    Err(place) => {
                        members.insert(place, (Cow::Owned(name.clone()), value));
                        Ok(())
                    }
                }
            }
            (Self::Array(elements), leg @ (Leg::Cell(_) | Leg::FromEnd(_))) => {
                // Beyond the last element means behind it, before the first before it.
                let end = elements.len();
                let place = match leg {
                    Leg::Cell(index) => (*index).min(end),
                    Leg::FromEnd(back) => end.saturating_sub(back.saturating_add(1)),
                    Leg::Member(_) => return Err(MALFORMED),
                };
                elements.insert(place, value);
                Ok(())
            }
            _ => Err(MALFORMED),
        }
    }

    fn remove(&mut self, path: &[Leg]) -> Result<(), CellError> {
        let (last, parent) = path.split_last().ok_or(MALFORMED)?;
        let parent = self.seek(parent)?;
        parent.unpack()?;
        match (parent, last) {
            (Self::Object(members), Leg::Member(name)) => {
                let place = members.iter().position(|(key, _)| **key == **name).ok_or(MALFORMED)?;
                members.remove(place);
            }
            (Self::Array(elements), leg @ (Leg::Cell(_) | Leg::FromEnd(_))) => {
                let place = place(leg, elements.len()).ok_or(MALFORMED)?;
                elements.remove(place);
            }
            _ => return Err(MALFORMED),
        }
        Ok(())
    }

    fn write(&self, depth: usize, limit: usize, text: &mut Vec<u8>) -> Result<(), CellError> {
        if depth > DEPTH_MAX || text.len() > limit {
            return Err(MALFORMED);
        }
        match self {
            Self::Stored(value) => json::write_value(value, depth, limit, text)?,
            Self::Object(members) => {
                text.push(b'{');
                for (index, (key, value)) in members.iter().enumerate() {
                    json::separate(index, text);
                    json_text::write_string(key, text);
                    text.extend_from_slice(b": ");
                    value.write(depth + 1, limit, text)?;
                }
                text.push(b'}');
            }
            Self::Array(elements) => {
                text.push(b'[');
                for (index, element) in elements.iter().enumerate() {
                    json::separate(index, text);
                    element.write(depth + 1, limit, text)?;
                }
                text.push(b']');
            }
        }
        Ok(())
    }
}

/// Where a leg points to in an array of this length.
fn place(leg: &Leg, length: usize) -> Option<usize> {
    match leg {
        Leg::Cell(index) => Some(*index).filter(|index| *index < length),
        Leg::FromEnd(back) => length.checked_sub(1)?.checked_sub(*back),
        Leg::Member(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What changes a document in ways the server would not log is refused. What it does log is in the captures.
    #[test]
    fn changes_that_do_not_fit_are_refused() {
        // {"a": [1]}
        let before = [0x00, 1, 0, 19, 0, 11, 0, 1, 0, 0x02, 12, 0, b'a', 1, 0, 7, 0, 0x05, 1, 0];
        let change = |operation: u8, path: &str, value: &[u8]| {
            let mut bytes = vec![operation, u8::try_from(path.len()).unwrap()];
            bytes.extend_from_slice(path.as_bytes());
            if operation < 2 {
                bytes.push(u8::try_from(value.len()).unwrap());
                bytes.extend_from_slice(value);
            }
            bytes
        };
        let two = [0x05, 2, 0];
        for (changes, expected) in [
            (change(0, "$.a[0]", &two), Some(r#"{"a": [2]}"#)),
            (change(0, "$", &two), Some("2")),
            (change(1, "$.b", &two), Some(r#"{"a": [1], "b": 2}"#)),
            (change(1, "$.a[0]", &two), Some(r#"{"a": [2, 1]}"#)),
            (change(1, "$.a[9]", &two), Some(r#"{"a": [1, 2]}"#)),
            (change(1, "$.a[last-18446744073709551615]", &two), Some(r#"{"a": [2, 1]}"#)),
            (change(2, "$.a[last]", &[]), Some(r#"{"a": []}"#)),
            (change(2, "$.a", &[]), Some("{}")),
            ([change(2, "$.a", &[]), change(1, "$.a", &two)].concat(), Some(r#"{"a": 2}"#)),
            (change(0, "$.x", &two), None),
            (change(0, "$.a[1]", &two), None),
            (change(1, "$.a", &two), None),
            (change(1, "$", &two), None),
            (change(1, "$.a.b", &two), None),
            (change(2, "$", &[]), None),
            (change(2, "$.a[1]", &[]), None),
            (change(3, "$.a", &[]), None),
            (change(0, "$.a", &[0x0d]), None),
            (vec![0, 9, b'$'], None),
        ] {
            let mut out = ColumnBuffer::new(calve_core::ColumnType::String);
            let mut text = Vec::new();
            let found = push_changed(&before, &changes, &mut text, &mut out);
            let found = found.is_ok().then(|| String::from_utf8(text).unwrap());
            assert_eq!(found.as_deref(), expected, "{changes:?}");
        }
    }

    #[test]
    fn paths_are_read_as_the_server_writes_them() {
        let member = |name: &str| Leg::Member(name.as_bytes().to_vec());
        for (text, expected) in [
            ("$", Ok(vec![])),
            ("$.a.b[3]", Ok(vec![member("a"), member("b"), Leg::Cell(3)])),
            (r#"$."a b"."c\"d"[last-2]"#, Ok(vec![member("a b"), member("c\"d"), Leg::FromEnd(2)])),
            ("$[last]", Ok(vec![Leg::FromEnd(0)])),
            ("", Err(MALFORMED)),
            ("$a", Err(MALFORMED)),
            ("$[x]", Err(MALFORMED)),
            ("$[1", Err(MALFORMED)),
            (r#"$."a"#, Err(MALFORMED)),
        ] {
            assert_eq!(path(text.as_bytes()), expected, "{text}");
        }
    }
}
