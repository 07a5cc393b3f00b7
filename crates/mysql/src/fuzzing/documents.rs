//! JSON documents in their binary form, and changes to them.

use calve_core::{ColumnBuffer, ColumnType, Values};
use serde_json::Value;

use super::input::Choices;
use crate::binlog::json::push_json;
use crate::binlog::json_diff::push_changed;

/// A byte that says what the input is, two of the first part's length.
const CHOICES: usize = 3;

/// Takes a document and what may be changes to it, or the text of a document.
pub fn documents(data: &[u8]) {
    let (mut choices, rest) = Choices::split(data, CHOICES);
    if choices.byte() & 1 == 1 {
        return encoded(rest);
    }
    let length = usize::from(choices.short()).min(rest.len());
    let (document, changes) = rest.split_at(length);
    let text = text_of(document);
    if let Some(text) = &text {
        assert!(text.len() <= document.len() * 8 + 64 + 6 * 65_536, "{} bytes print as {}", document.len(), text.len());
        assert!(serde_json::from_str::<Value>(text).is_ok(), "{text} is JSON");
        assert_eq!(changed(document, &[]).as_ref(), Some(text), "no change changes nothing");
        // `$` replaced by something else, which is all there is then.
        let mut whole = b"\x00\x01$".to_vec();
        put_packed(changes.len(), &mut whole);
        whole.extend_from_slice(changes);
        if let Some(other) = text_of(changes) {
            assert_eq!(changed(document, &whole), Some(other));
        }
    }
    if let Some(text) = changed(document, changes) {
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text} is JSON");
    }
}

/// What is written in the binary form reads back as it was. Numbers with a point are left to [`doubles`]: `serde_json` does
/// not read all of them exactly.
fn encoded(text: &[u8]) {
    doubles(text);
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return };
    if has_doubles(&value) {
        return;
    }
    let Some(document) = encode(&value) else { return };
    if let Some(text) = text_of(&document) {
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value), "{text}");
    }
}

fn has_doubles(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(elements) => elements.iter().any(has_doubles),
        Value::Object(members) => members.values().any(has_doubles),
        _ => false,
    }
}

/// Eight bytes each.
fn doubles(bytes: &[u8]) {
    for bytes in bytes.chunks_exact(8).take(8) {
        let document = [&[0x0b], bytes].concat();
        let Some(text) = text_of(&document) else { continue };
        let again = text.parse().map(f64::to_le_bytes);
        assert_eq!(again.as_ref().map(<[u8; 8]>::as_slice), Ok(bytes), "{text}");
    }
}

fn text_of(document: &[u8]) -> Option<String> {
    let mut out = ColumnBuffer::new(ColumnType::String);
    push_json(document, &mut Vec::new(), &mut out).ok().map(|()| only(&out))
}

fn changed(document: &[u8], changes: &[u8]) -> Option<String> {
    let mut out = ColumnBuffer::new(ColumnType::String);
    let pushed = push_changed(document, changes, &mut Vec::new(), &mut out);
    assert_eq!(out.len(), usize::from(pushed.is_ok()), "on an error nothing is appended");
    pushed.ok().map(|()| only(&out))
}

fn only(cells: &ColumnBuffer) -> String {
    let Values::Bytes { offsets, data } = cells.values() else { panic!("text is bytes") };
    assert_eq!((offsets.len(), offsets.last().copied()), (2, i32::try_from(data.len()).ok()));
    String::from_utf8(data.clone()).expect("text is UTF-8")
}

/// An integer as [`wire`](crate::binlog::wire) packs it.
pub(super) fn put_packed(value: usize, out: &mut Vec<u8>) {
    match value {
        0..=250 => out.extend_from_slice(&value.to_le_bytes()[..1]),
        251..=0xffff => {
            out.push(252);
            out.extend_from_slice(&value.to_le_bytes()[..2]);
        }
        _ => {
            out.push(254);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// A document in the binary form of `json_binary.h`, all containers large. None for what it cannot hold.
pub(super) fn encode(value: &Value) -> Option<Vec<u8>> {
    let (kind, bytes) = encode_value(value, 1)?;
    Some([&[kind], bytes.as_slice()].concat())
}

fn encode_value(value: &Value, depth: usize) -> Option<(u8, Vec<u8>)> {
    if depth > 100 {
        return None;
    }
    Some(match value {
        Value::Null => (0x04, vec![0]),
        Value::Bool(value) => (0x04, vec![if *value { 1 } else { 2 }]),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => (0x09, value.to_le_bytes().to_vec()),
            (_, Some(value)) => (0x0a, value.to_le_bytes().to_vec()),
            _ => (0x0b, number.as_f64()?.to_le_bytes().to_vec()),
        },
        Value::String(text) => {
            let mut bytes = Vec::new();
            let mut length = text.len();
            while length > 0x7f {
                bytes.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
                length >>= 7;
            }
            bytes.push(u8::try_from(length).unwrap_or(0));
            bytes.extend_from_slice(text.as_bytes());
            (0x0c, bytes)
        }
        Value::Array(elements) => {
            let elements = elements.iter().map(|element| (None, element)).collect::<Vec<_>>();
            (0x03, container(&elements, depth)?)
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().map(|(key, member)| (Some(key.as_str()), member)).collect();
            members.sort_by_key(|(key, _)| key.map(|key| (key.len(), key)));
            (0x01, container(&members, depth)?)
        }
    })
}

fn container(members: &[(Option<&str>, &Value)], depth: usize) -> Option<Vec<u8>> {
    let keys: usize = members.iter().map(|(key, _)| if key.is_some() { 6 } else { 0 }).sum();
    let mut head = Vec::new();
    let mut tail = Vec::new();
    let beginning = 8 + keys + 5 * members.len();
    let number = |value: usize| u32::try_from(value).ok().map(u32::to_le_bytes);
    for (key, _) in members {
        if let Some(key) = key {
            head.extend_from_slice(&number(beginning + tail.len())?);
            head.extend_from_slice(&u16::try_from(key.len()).ok()?.to_le_bytes());
            tail.extend_from_slice(key.as_bytes());
        }
    }
    for (_, member) in members {
        let (kind, bytes) = encode_value(member, depth + 1)?;
        head.push(kind);
        if kind == 0x04 {
            // Literals stand in place of their offset.
            head.extend_from_slice(&bytes);
            head.extend_from_slice(&[0; 3]);
        } else {
            head.extend_from_slice(&number(beginning + tail.len())?);
            tail.extend_from_slice(&bytes);
        }
    }
    let size = number(beginning + tail.len())?;
    Some([&number(members.len())?, &size, head.as_slice(), tail.as_slice()].concat())
}
