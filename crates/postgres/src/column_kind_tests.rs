//! Arrays, hstore and vectors against what a server printed, in both of its forms, and against bytes that no server prints.

use calve_core::{Column, ColumnBuffer, NativeElement, NativeType, cell_text};

use super::*;
use crate::types::{oid, single_type};

const NUMERIC_9_2: i32 = (9 << 16 | 2) + 4;

fn column(ty: ColumnType, native: NativeType) -> Column {
    Column { id: 0, name: "c".to_owned(), ty, nullable: true, native, usage: calve_core::ColumnUse::Values }
}

fn array(element: u32, modifier: i32, delimiter: char) -> Column {
    let element_type = Some(NativeElement { id: element, delimiter });
    let native = NativeType { element: element_type, ..NativeType::new(0, modifier, "array") };
    column(single_type(element, modifier).list(), native)
}

fn hstore() -> Column {
    column(ColumnType::Map, NativeType::new(20_000, -1, "public.hstore"))
}

fn vector() -> Column {
    column(ColumnType::Float.list(), NativeType::new(20_001, -1, "public.vector(3)"))
}

/// The cell as text, of a form of it. Where it fails nothing was pushed.
fn read(column: &Column, form: &[u8], binary: bool) -> Result<String, CellError> {
    let mut buffer = ColumnBuffer::new(column.ty.clone());
    let kind = ColumnKind::plan(column);
    let pushed = if binary { kind.binary(form, &mut buffer) } else { kind.text(form, &mut buffer) };
    assert_eq!(buffer.len(), usize::from(pushed.is_ok()), "{pushed:?}");
    pushed.map(|()| cell_text(&buffer, 0).expect("it is not NULL"))
}

/// `array_send` of a list; None is NULL.
fn sent(lower: i32, elements: &[Option<&[u8]>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let dimensions = i32::from(!elements.is_empty());
    bytes.extend([dimensions, 1, 25].map(i32::to_be_bytes).concat());
    if dimensions == 1 {
        bytes.extend([i32::try_from(elements.len()).unwrap(), lower].map(i32::to_be_bytes).concat());
    }
    texts(&mut bytes, elements);
    bytes
}

fn texts(bytes: &mut Vec<u8>, elements: &[Option<&[u8]>]) {
    for element in elements {
        let length = element.map_or(-1, |element| i32::try_from(element.len()).unwrap());
        bytes.extend(length.to_be_bytes());
        bytes.extend(element.unwrap_or_default());
    }
}

/// Column, text form, binary form, and what both mean.
fn server_values() -> Vec<(Column, &'static str, Vec<u8>, &'static str)> {
    let text = || array(oid::TEXT, -1, ',');
    let odd: [Option<&[u8]>; 8] = [
        Some(b"a"),
        None,
        Some(b"NULL"),
        Some(b""),
        Some(b"b c"),
        Some(br#"d"\"#),
        Some(b"{e,}"),
        Some("ü✓".as_bytes()),
    ];
    let odd_text = r#"{a,NULL,"NULL","","b c","d\"\\","{e,}",ü✓}"#;
    let (one, two) = (1_i32.to_be_bytes(), (-2_147_483_648_i32).to_be_bytes());
    let mut entries = 2_i32.to_be_bytes().to_vec();
    texts(&mut entries, &[Some(b"b"), None, Some(br#"a"\"#), Some(b"")]);
    let reals: Vec<u8> =
        [0, 3, 0, 0].into_iter().chain([1.0_f32, -2.5, 1e-7].into_iter().flat_map(f32::to_be_bytes)).collect();
    vec![
        (text(), odd_text, sent(1, &odd), odd_text),
        (text(), "{}", sent(1, &[]), "{}"),
        (text(), "[0:1]={a,b}", sent(0, &[Some(b"a"), Some(b"b")]), "{a,b}"),
        (text(), "[-3:-3]={NULL}", sent(-3, &[None]), "{NULL}"),
        (
            array(oid::INT4, -1, ','),
            "{1,NULL,-2147483648}",
            sent(1, &[Some(&one), None, Some(&two)]),
            "{1,NULL,-2147483648}",
        ),
        (array(oid::BOOL, -1, ','), "{t,f}", sent(1, &[Some(&[1]), Some(&[0])]), "{true,false}"),
        // 1.50, in groups of four digits.
        (
            array(oid::NUMERIC, NUMERIC_9_2, ','),
            "{1.50}",
            sent(1, &[Some(&[0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88])]),
            "{1.50}",
        ),
        (array(oid::BYTEA, -1, ','), r#"{"\\x00ff"}"#, sent(1, &[Some(&[0, 255])]), r#"{"\\x00ff"}"#),
        (
            array(oid::TIMESTAMP, -1, ','),
            r#"{"2000-01-01 00:00:00"}"#,
            sent(1, &[Some(&[0; 8])]),
            r#"{"2000-01-01 00:00:00"}"#,
        ),
        (array(oid::JSONB, -1, ','), r#"{"{\"a\": 1}"}"#, sent(1, &[Some(b"\x01{\"a\": 1}")]), r#"{"{\"a\": 1}"}"#),
        // int2vector
        (array(oid::INT2, -1, ' '), "1 -2", sent(0, &[Some(&[0, 1]), Some(&[255, 254])]), "{1,-2}"),
        (array(oid::INT2, -1, ' '), "", sent(0, &[]), "{}"),
        (hstore(), r#""b"=>NULL, "a\"\\"=>"""#, entries, r#""b"=>NULL, "a\"\\"=>"""#),
        (hstore(), "", 0_i32.to_be_bytes().to_vec(), ""),
        (vector(), "[1,-2.5,1e-07]", reals, "{1,-2.5,0.0000001}"),
    ]
}

#[test]
fn both_forms_of_what_has_parts_are_the_server_s() {
    for (column, text, binary, expected) in server_values() {
        assert!(binary_safe(&column));
        assert_eq!(read(&column, text.as_bytes(), false), Ok(expected.to_owned()), "'{text}'");
        assert_eq!(read(&column, &binary, true), Ok(expected.to_owned()), "'{text}' in binary form");
    }
}

/// Elements that only the text form is understood of, and their own delimiter.
#[test]
fn elements_are_told_apart_as_their_type_writes_them() {
    let inet = array(869, -1, ',');
    assert!(!binary_safe(&inet));
    assert_eq!(read(&inet, b"{10.0.0.1/8,NULL}", false).unwrap(), "{10.0.0.1/8,NULL}");
    let boxes = array(603, -1, ';');
    assert_eq!(read(&boxes, b"{(1,1),(0,0);(2,2),(1,1)}", false).unwrap(), r#"{"(1,1),(0,0)","(2,2),(1,1)"}"#);
    let geometry = NativeType { attributes: vec!["postgis".to_owned()], ..NativeType::new(20_002, -1, "geometry") };
    let geometry = column(ColumnType::Binary, geometry);
    assert_eq!(read(&geometry, b"0101000000", false), read(&geometry, &[1, 1, 0, 0, 0], true));
    assert!(read(&geometry, br"\x0101", false).is_err());
}

#[test]
fn what_a_list_cannot_hold_is_refused() {
    let numbers = array(oid::INT4, -1, ',');
    let square = |dimensions: i32| [dimensions.to_be_bytes(), [0; 4], [0; 4], [0; 4]].concat();
    for (form, binary) in [
        (b"{{1,2},{3,4}}".to_vec(), false),
        (b"[1:1][2:2]={{1}}".to_vec(), false),
        (square(2), true),
        (square(6), true),
    ] {
        let refused = read(&numbers, &form, binary);
        assert!(
            matches!(refused, Err(CellError::Unrepresentable { what }) if what.contains("dimension")),
            "{refused:?}"
        );
    }
    // One element is enough, and nothing is near to a list.
    let dates = array(oid::DATE, -1, ',');
    assert!(matches!(read(&dates, b"{2024-01-01,infinity}", false), Err(CellError::Unrepresentable { .. })));
    assert_eq!(ColumnKind::plan(&dates).nearest_of_text(b"{infinity}"), None);
    let cents = array(oid::NUMERIC, NUMERIC_9_2, ',');
    assert!(matches!(read(&cents, b"{1,NaN}", false), Err(CellError::Unrepresentable { .. })));
}

#[test]
fn other_bytes_are_refused() {
    let (text, numbers) = (array(oid::TEXT, -1, ','), array(oid::INT4, -1, ','));
    for form in [
        "",
        "{",
        "}",
        "a",
        "{a",
        "a}",
        "{a,}",
        "{,a}",
        "{a,,b}",
        r#"{"a}"#,
        r#"{"a"b}"#,
        r#"{a"b"}"#,
        r"{a\b}",
        "{a}b",
        "[1:2]{a}",
        "[x:2]={a}",
        "[1:2]=",
        "{}}",
        r#"{"a\"}"#,
    ] {
        assert!(matches!(read(&text, form.as_bytes(), false), Err(CellError::Malformed { .. })), "'{form}'");
    }
    for form in ["{1.5}", "{a}", "{\"\"}", "{99999999999}"] {
        assert!(read(&numbers, form.as_bytes(), false).is_err(), "'{form}'");
    }
    let pairs = [
        r#""a""#,
        r#""a"=>"#,
        r#""a"=>1"#,
        r#""a"=>"1","b"=>"2""#,
        r#""a"=>"1", "#,
        r#"a=>"1""#,
        r#""a"=>"1", "a"=>"2""#,
        r#""bb"=>"1", "a"=>"2""#,
    ];
    for form in pairs {
        assert!(matches!(read(&hstore(), form.as_bytes(), false), Err(CellError::Malformed { .. })), "'{form}'");
    }
    for form in ["", "[]", "[1,]", "[1", "1,2", "[a]"] {
        assert!(read(&vector(), form.as_bytes(), false).is_err(), "'{form}'");
    }
}

/// Every prefix, and every byte made another: refused or read, never a panic, and no memory that the bytes do not pay for.
#[test]
fn hostile_bytes_are_survived() {
    for (column, text, binary, _) in server_values() {
        for (form, is_binary) in [(text.as_bytes(), false), (&binary[..], true)] {
            for cut in 0..form.len() {
                let cut_short = read(&column, &form[..cut], is_binary);
                assert!(!is_binary || cut_short.is_err(), "{cut} bytes of '{text}' were {cut_short:?}");
            }
            let mut form = form.to_vec();
            for at in 0..form.len() {
                let was = form[at];
                for byte in [0, 1, 0x7f, 0x80, 0xff, b'"', b'\\', b'{', b'}', b',', b'=', b'[', b' ', was ^ 1] {
                    form[at] = byte;
                    let _ = read(&column, &form, is_binary);
                }
                form[at] = was;
            }
        }
    }
}
