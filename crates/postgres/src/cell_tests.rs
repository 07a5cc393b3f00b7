//! Cells against values that a server printed, in both of its forms, and against bytes that no server prints.

use calve_core::{Column, ColumnBuffer, ColumnType, NativeType, Values};

use super::*;
use crate::column_kind::{ColumnKind, binary_safe};
use crate::types::{built_in_type, choice};

/// Every built-in type that has a plan of its own, by its SQL name.
fn column(name: &str) -> Column {
    let (base, arguments) = name.split_once('(').unwrap_or((name, ")"));
    let id = match base {
        "boolean" => oid::BOOL,
        "smallint" => oid::INT2,
        "integer" => oid::INT4,
        "bigint" => oid::INT8,
        "oid" => oid::OID,
        "real" => oid::FLOAT4,
        "double precision" => oid::FLOAT8,
        "numeric" => oid::NUMERIC,
        "date" => oid::DATE,
        "time" => oid::TIME,
        "timestamp" => oid::TIMESTAMP,
        "timestamptz" => oid::TIMESTAMPTZ,
        "uuid" => oid::UUID,
        "bytea" => oid::BYTEA,
        "text" => oid::TEXT,
        "name" => oid::NAME,
        "character" => oid::BPCHAR,
        "character varying" => oid::VARCHAR,
        "json" => oid::JSON,
        "jsonb" => oid::JSONB,
        "inet" => 869,
        other => panic!("no number is known for {other}"),
    };
    let numbers: Vec<i32> =
        arguments.trim_end_matches(')').split(',').filter_map(|number| number.parse().ok()).collect();
    let modifier = match numbers[..] {
        [precision, scale] => (precision << 16 | scale) + 4,
        [length] => length + 4,
        _ => -1,
    };
    let native = NativeType::new(id, modifier, name);
    Column {
        id: 0,
        name: "c".to_owned(),
        ty: built_in_type(id, modifier),
        nullable: true,
        native,
        usage: calve_core::ColumnUse::Values,
    }
}

/// What one cell became, written down in a way that the server's own arithmetic can be compared with.
fn read(result: Result<(), CellError>, buffer: &ColumnBuffer) -> Result<String, CellError> {
    let pushed = usize::from(result.is_ok());
    assert_eq!(buffer.len(), pushed, "a cell that was {result:?} pushed {}", buffer.len());
    result?;
    Ok(match buffer.values() {
        Values::Boolean(bits) => if bits.get_bit(0) { "t" } else { "f" }.to_owned(),
        Values::Int32(v) => v[0].to_string(),
        Values::Int64(v) => v[0].to_string(),
        Values::Float32(v) => format!("{:08x}", v[0].to_bits()),
        Values::Float64(v) => format!("{:016x}", v[0].to_bits()),
        Values::Decimal(v) => v[0].to_string(),
        Values::Uuid(v) => hex(v),
        Values::Bytes { data, .. } if *buffer.column_type() == ColumnType::Binary => hex(data),
        Values::Bytes { data, .. } => String::from_utf8(data.clone()).unwrap(),
        Values::List { .. } | Values::Map { .. } => unreachable!("these are single values"),
    })
}

fn text(column: &Column, bytes: &[u8]) -> Result<String, CellError> {
    let mut buffer = ColumnBuffer::new(column.ty.clone());
    let result = ColumnKind::plan(column).text(bytes, &mut buffer);
    read(result, &buffer)
}

fn binary(column: &Column, bytes: &[u8]) -> Result<String, CellError> {
    let mut buffer = ColumnBuffer::new(column.ty.clone());
    let result = ColumnKind::plan(column).binary(bytes, &mut buffer);
    read(result, &buffer)
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Type, text form, binary form, expected.
fn server_values() -> impl Iterator<Item = (Column, &'static str, Vec<u8>, &'static str)> {
    include_str!("cell_values.tsv").lines().filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, text, binary, expected] = fields[..] else { panic!("four fields expected: {line}") };
        (column(name), text, unhex(binary), expected)
    })
}

#[test]
fn both_forms_of_a_value_are_the_server_s_value() {
    let mut seen = 0;
    for (column, text_form, binary_form, expected) in server_values() {
        let name = &column.native.name;
        let (from_text, from_binary) = (text(&column, text_form.as_bytes()), binary(&column, &binary_form));
        assert_eq!(from_text, from_binary, "{name} '{text_form}': text and binary differ");
        seen += 1;
        if expected == "!" {
            assert!(
                matches!(from_text, Err(CellError::Unrepresentable { .. })),
                "{name} '{text_form}' became {from_text:?}"
            );
            continue;
        }
        let expected = match column.ty {
            // The bits on the wire are the value.
            ColumnType::Float if expected == "NaN" => format!("{:08x}", f32::NAN.to_bits()),
            ColumnType::Double if expected == "NaN" => format!("{:016x}", f64::NAN.to_bits()),
            ColumnType::Float | ColumnType::Double | ColumnType::Uuid | ColumnType::Binary => hex(&binary_form),
            _ => expected.to_owned(),
        };
        assert_eq!(from_text, Ok(expected), "{name} '{text_form}'");
    }
    assert!(seen > 150, "only {seen} values were compared");
}

#[test]
fn every_nan_is_the_same() {
    for bits in [0x7fc0_0000_u32, 0xffc0_0000, 0x7f80_0001] {
        assert_eq!(binary(&column("real"), &bits.to_be_bytes()), text(&column("real"), b"NaN"), "{bits:x}");
    }
    for bits in [0x7ff8_0000_0000_0000_u64, 0xfff8_0000_0000_0000, 0x7ff0_0000_0000_0001] {
        let double = column("double precision");
        assert_eq!(binary(&double, &bits.to_be_bytes()), text(&double, b"NaN"), "{bits:x}");
    }
}

#[test]
fn a_decimal_of_another_shape_is_exact_or_refused() {
    let cents = column("numeric(6,2)");
    for (form, expected) in [
        ("1", Ok("100")),
        ("1.5", Ok("150")),
        ("1.500000", Ok("150")),
        ("0000001.00", Ok("100")),
        ("-0.00", Ok("0")),
        ("1.505", Err(true)),
        ("9999.99", Ok("999999")),
        ("10000.00", Err(true)),
        ("99999999999999999999999999999999999999999999", Err(true)),
        ("", Err(false)),
        ("-", Err(false)),
        (".5", Err(false)),
        ("1e2", Err(false)),
        ("1.2.3", Err(false)),
        ("+1", Err(false)),
    ] {
        let got = text(&cents, form.as_bytes());
        let kind = got.as_deref().map_err(|error| matches!(error, CellError::Unrepresentable { .. }));
        assert_eq!(kind, expected, "'{form}' became {got:?}");
    }
}

/// The binary form, built digit by digit from the text, as slowly and plainly as can be.
fn numeric_send(text: &str) -> Vec<u8> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = u16::try_from(fraction.len()).unwrap();
    let whole = format!("{}{whole}", "0".repeat(whole.len().next_multiple_of(4) - whole.len()));
    let fraction = format!("{fraction}{}", "0".repeat(fraction.len().next_multiple_of(4) - fraction.len()));
    let mut weight = i16::try_from(whole.len() / 4).unwrap() - 1;
    let all = whole + &fraction;
    let mut groups: Vec<u16> = (0..all.len()).step_by(4).map(|at| all[at..at + 4].parse().unwrap()).collect();
    while groups.first() == Some(&0) {
        groups.remove(0);
        weight -= 1;
    }
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let sign: u16 = if negative && !groups.is_empty() { 0x4000 } else { 0 };
    let weight = if groups.is_empty() { 0 } else { weight };
    let mut bytes = u16::try_from(groups.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(weight.to_be_bytes());
    bytes.extend(sign.to_be_bytes());
    bytes.extend(scale.to_be_bytes());
    bytes.extend(groups.into_iter().flat_map(u16::to_be_bytes));
    bytes
}

/// A small generator of its own (xorshift), so that a failure comes again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }
}

#[test]
fn random_numerics_are_the_same_in_both_forms() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let precision = 1 + random.below(38);
        let scale = random.below(precision + 1);
        let digits: String = (0..precision)
            .map(
                |_| if random.below(3) == 0 { '0' } else { char::from(b'0' + u8::try_from(random.below(10)).unwrap()) },
            )
            .collect();
        let (whole, fraction) = digits.split_at(precision - scale);
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            whole => whole,
        };
        let unsigned = if scale == 0 { whole.to_owned() } else { format!("{whole}.{fraction}") };
        let unscaled: i128 = digits.parse().unwrap();
        let negative = unscaled != 0 && random.below(2) == 0;
        let (form, unscaled) = if negative { (format!("-{unsigned}"), -unscaled) } else { (unsigned, unscaled) };

        let decimal = column(&format!("numeric({precision},{scale})"));
        let sent = numeric_send(&form);
        assert_eq!(text(&decimal, form.as_bytes()), Ok(unscaled.to_string()), "text {form}");
        assert_eq!(binary(&decimal, &sent), Ok(unscaled.to_string()), "binary {form}");
        assert_eq!(binary(&column("numeric"), &sent), Ok(form.clone()), "text of binary {form}");
    }
}

#[test]
fn bytes_that_no_server_sends_never_panic_and_push_nothing() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for (column, text_form, binary_form, _) in server_values() {
        for cut in 0..binary_form.len() {
            _ = binary(&column, &binary_form[..cut]);
        }
        for _ in 0..200 {
            for mut bytes in [text_form.as_bytes().to_vec(), binary_form.clone()] {
                for _ in 0..=random.below(3) {
                    let noise = random.next().to_le_bytes()[0];
                    match bytes.len() {
                        0 => bytes.push(noise),
                        len => bytes[random.below(len)] = noise,
                    }
                }
                // `read` asserts that a refused cell pushed nothing.
                _ = text(&column, &bytes);
                _ = binary(&column, &bytes);
            }
        }
    }
}

#[test]
fn truncated_binary_forms_of_fixed_length_are_malformed() {
    for name in
        ["boolean", "bigint", "real", "double precision", "date", "time", "timestamp", "timestamptz", "uuid", "numeric"]
    {
        let column = column(name);
        for len in [1, 3, 5, 7, 9, 15, 17] {
            let bytes = vec![2; len];
            assert!(matches!(binary(&column, &bytes), Err(CellError::Malformed { .. })), "{name} of {len} bytes");
        }
    }
}

#[test]
fn other_types_are_the_text_of_the_server_and_never_binary() {
    let inet = column("inet");
    assert!(!binary_safe(&inet));
    assert_eq!(text(&inet, b"192.168.0.1/24"), Ok("192.168.0.1/24".to_owned()));
    assert!(matches!(binary(&inet, &[2, 24, 0, 4, 192, 168, 0, 1]), Err(CellError::Malformed { .. })));
    assert!(server_values().all(|(column, ..)| binary_safe(&column)));
}

#[test]
fn bytes_that_are_not_utf_8_are_refused() {
    for name in ["text", "character(3)", "inet"] {
        assert!(matches!(text(&column(name), b"a\xff"), Err(CellError::Unrepresentable { .. })), "{name}");
    }
}

/// Type at the source, in the lake, text form, binary form, what becomes of it: exact, or refused with the nearest.
#[test]
fn a_type_that_was_chosen_is_the_same_in_both_forms() {
    let real = |value: f32| value.to_be_bytes().to_vec();
    for (name, ty, form, bytes, expected) in [
        ("smallint", ColumnType::Long, "-32768", (-32_768_i16).to_be_bytes().to_vec(), Ok("-32768")),
        ("integer", ColumnType::Long, "-1", (-1_i32).to_be_bytes().to_vec(), Ok("-1")),
        ("real", ColumnType::Double, "0.1", real(0.1), Ok("3fb99999a0000000")),
        ("real", ColumnType::Double, "-Infinity", real(f32::NEG_INFINITY), Ok("fff0000000000000")),
        ("real", ColumnType::Double, "NaN", real(-f32::NAN), Ok("7ff8000000000000")),
        (
            "numeric",
            ColumnType::Long,
            "9223372036854775807",
            numeric_send("9223372036854775807"),
            Ok("9223372036854775807"),
        ),
        ("numeric", ColumnType::Long, "-5.000", numeric_send("-5.000"), Ok("-5")),
        ("numeric", ColumnType::Long, "9223372036854775808", numeric_send("9223372036854775808"), Err(Some(i64::MAX))),
        ("numeric", ColumnType::Long, "-1e0", vec![0; 3], Err(None)),
        ("numeric", ColumnType::Long, "2.5", numeric_send("2.5"), Err(Some(3))),
        (
            "numeric",
            ColumnType::Long,
            "-99999999999999999999.5",
            numeric_send("-99999999999999999999.5"),
            Err(Some(i64::MIN)),
        ),
        (
            "numeric(30,10)",
            ColumnType::Decimal { precision: 4, scale: 1 },
            "999.9500000000",
            numeric_send("999.9500000000"),
            Err(Some(9999)),
        ),
        (
            "numeric(30,10)",
            ColumnType::Decimal { precision: 4, scale: 1 },
            "-0.5000000000",
            numeric_send("-0.5000000000"),
            Ok("-5"),
        ),
    ] {
        let own = choice(&column(name));
        let column = Column { ty, ..column(name) };
        assert!(binary_safe(&column) && own.allows(&column.ty), "{name}");
        let kind = ColumnKind::plan(&column);
        let forms = [
            (text(&column, form.as_bytes()), kind.nearest_of_text(form.as_bytes())),
            (binary(&column, &bytes), kind.nearest_of_binary(&bytes)),
        ];
        for (got, nearest) in forms {
            match (got, expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{name} {form}"),
                (Err(CellError::Unrepresentable { .. }), Err(Some(expected))) => {
                    assert_eq!(nearest, Some(expected.into()), "{name} {form}");
                }
                (Err(CellError::Malformed { .. }), Err(None)) => {}
                (got, _) => panic!("{name} {form} became {got:?}"),
            }
        }
    }
    let printed = Column { ty: ColumnType::String, ..column("integer") };
    assert!(!binary_safe(&printed));
    assert_eq!(text(&printed, b"-7"), Ok("-7".to_owned()));
}

/// The text form, and the binary form of dates, times and timestamps as their number.
#[test]
fn the_nearest_value_is_the_same_in_both_forms() {
    let refused = |result| assert!(matches!(result, Err(CellError::Unrepresentable { .. })), "{result:?}");
    let nearest = |column: &Column, form: &str| {
        refused(text(column, form.as_bytes()));
        ColumnKind::plan(column).nearest_of_text(form.as_bytes())
    };
    let nearest_in_binary = |column: &Column, bytes: &[u8]| {
        refused(binary(column, bytes));
        ColumnKind::plan(column).nearest_of_binary(bytes)
    };
    for (name, form, number, expected) in [
        ("date", "infinity", i128::from(i32::MAX), Some(2_147_483_647)),
        ("date", "-infinity", i128::from(i32::MIN), Some(-2_147_483_647)),
        ("timestamp", "infinity", i128::from(i64::MAX), Some(9_223_372_036_854_775_807)),
        ("timestamptz", "-infinity", i128::from(i64::MIN), Some(-9_223_372_036_854_775_807)),
        ("timestamp", "294276-12-31 23:59:59.999999", 9_223_371_331_199_999_999, Some(9_223_372_036_854_775_807)),
        ("time", "24:00:00", 86_400_000_000, Some(86_399_999_999)),
    ] {
        let column = column(name);
        let bytes = match name {
            "date" => i32::try_from(number).unwrap().to_be_bytes().to_vec(),
            _ => i64::try_from(number).unwrap().to_be_bytes().to_vec(),
        };
        assert_eq!(nearest(&column, form), expected, "{name} '{form}'");
        assert_eq!(nearest_in_binary(&column, &bytes), expected, "{name} '{form}' in binary");
    }
    for (form, expected) in [
        ("12345.678", Some(999_999)),
        ("-12345", Some(-999_999)),
        ("1.005", Some(101)),
        ("-1.005", Some(-101)),
        ("1.00499", Some(100)),
        ("9999.995", Some(999_999)),
        ("0.00001", Some(0)),
        ("123456789012345678901234567890123456789012345678901234567890.5", Some(999_999)),
    ] {
        let cents = column("numeric(6,2)");
        assert_eq!(nearest(&cents, form), expected, "{form}");
        assert_eq!(nearest_in_binary(&cents, &numeric_send(form)), expected, "{form} in binary");
    }
    let special = |sign: u16| [0_u16, 0, sign, 0].iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    for (form, sign, expected) in
        [("NaN", 0xc000, None), ("Infinity", 0xd000, Some(999_999)), ("-Infinity", 0xf000, Some(-999_999))]
    {
        let cents = column("numeric(6,2)");
        assert_eq!(nearest(&cents, form), expected, "{form}");
        assert_eq!(nearest_in_binary(&cents, &special(sign)), expected, "{form} in binary");
    }
    assert_eq!(ColumnKind::plan(&column("text")).nearest_of_text(b"a\xff"), None);
}
