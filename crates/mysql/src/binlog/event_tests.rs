//! Events that no log file holds, and what must not pass.

use super::*;

fn header(kind: u8, flags: u16, log_pos: u32) -> Header {
    Header { timestamp: 0, kind, server_id: 1, size: 0, log_pos, flags }
}

fn check(flavour: Flavour, header: Header, body: &[u8], expected: &str) {
    let found = match parse(flavour, &header, body) {
        Ok(event) => format!("{event:?}"),
        Err(error) => format!("refused: {error}"),
    };
    assert!(found.contains(expected), "{found}, expected {expected}");
}

#[test]
fn heartbeats_say_how_far_the_log_was_read() {
    use Flavour::{MariaDb, MySql};
    let plain = header(kind::HEARTBEAT, 0, 4711);
    for flavour in [MySql, MariaDb] {
        check(flavour, plain, b"binlog.000007", r#"Heartbeat { file: "binlog.000007", position: 4711 }"#);
        check(flavour, plain, b"", "refused");
        check(flavour, plain, b"\xff", "refused");
    }
    let far = header(kind::HEARTBEAT, 0, 0);
    let mut body = 5_000_000_000_u64.to_le_bytes().to_vec();
    body.extend_from_slice(b"binlog.000007");
    check(MariaDb, far, &body, r#"Heartbeat { file: "binlog.000007", position: 5000000000 }"#);
    check(MariaDb, far, b"short", "refused");

    let v2 = header(kind::HEARTBEAT_V2, 0, 0);
    let body = b"\x01\x05b.007\x02\x09\xfe\x00\xf2\x05\x2a\x01\x00\x00\x00\x09\x01\x01\x00";
    check(MySql, v2, body, r#"Heartbeat { file: "b.007", position: 5000000000 }"#);
    check(MySql, v2, b"\x01\x05b.007\x00", "refused");
    check(MySql, v2, b"\x01\x05b.007", "refused");
    check(MariaDb, v2, body, "refused: events of type 41");
}

/// The first event of a stream: the server made it, and does not say yet whether there are checksums.
#[test]
fn rotations_made_for_the_reader_may_end_with_a_checksum() {
    let mut body = 4_u64.to_le_bytes().to_vec();
    body.extend_from_slice(b"binlog.000012");
    let made = header(kind::ROTATE, flag::ARTIFICIAL, 0);
    let sum = checksum(made, &body);
    let expected = r#"Rotate { file: "binlog.000012", position: 4 }"#;
    check(Flavour::MariaDb, made, &body, expected);
    check(Flavour::MySql, header(kind::ROTATE, 0, 99), &body, expected);
    body.extend_from_slice(&sum.to_le_bytes());
    check(Flavour::MariaDb, made, &body, expected);
    check(Flavour::MySql, made, b"\x04\x00\x00", "refused");
}

/// A position with such a place could be written, and not be read again; or computing with it would overflow.
#[test]
fn places_in_the_log_are_numbered_files_and_offsets_that_a_file_can_have() {
    let rotate = header(kind::ROTATE, 0, 99);
    let heartbeat = header(kind::HEARTBEAT, 0, 0);
    let last = i64::MAX.cast_unsigned();
    for (offset, file, expected) in [
        (4, "binlog.000012", "position: 4"),
        (4, "odd.name@x:y.18446744073709551615", "position: 4"),
        (last, "b.1", "position: 9223372036854775807"),
        (last + 1, "b.1", "refused: a log file claims a length of 9223372036854775808 bytes"),
        (u64::MAX, "b.1", "refused: a log file claims"),
        (4, "binlog", "refused: the name of a log file does not end in its number: \"binlog\""),
        (4, "binlog.", "refused"),
        (4, "binlog.000x", "refused"),
        (4, "binlog.+1", "refused"),
        (4, "binlog.18446744073709551616", "refused"),
    ] {
        let body = [&offset.to_le_bytes(), file.as_bytes()].concat();
        check(Flavour::MySql, rotate, &body, expected);
        check(Flavour::MariaDb, heartbeat, &body, expected);
        let length = u8::try_from(file.len()).unwrap();
        let v2 = [&[1, length], file.as_bytes(), &[2, 9, 254], &offset.to_le_bytes(), &[0]].concat();
        check(Flavour::MySql, header(kind::HEARTBEAT_V2, 0, 0), &v2, expected);
    }
}

#[test]
fn what_is_unknown_is_refused_unless_it_may_be_ignored() {
    use Flavour::{MariaDb, MySql};
    for (flavour, kind) in
        [(MySql, 43), (MySql, 0), (MySql, 162), (MySql, 20), (MariaDb, 172), (MariaDb, 40), (MariaDb, 255)]
    {
        check(flavour, header(kind, 0, 0), b"", &format!("refused: events of type {kind} "));
        check(flavour, header(kind, flag::IGNORABLE, 0), b"", &format!("Aside({kind})"));
    }
    let encryption = kind::MARIA_START_ENCRYPTION;
    check(MariaDb, header(encryption, 0, 0), &[0; 17], "refused: the log is encrypted");
    check(MariaDb, header(encryption, flag::IGNORABLE, 0), &[0; 17], "Aside(164)");
}

#[test]
fn servers_say_when_they_stop_and_what_they_lost() {
    for flavour in [Flavour::MySql, Flavour::MariaDb] {
        check(flavour, header(kind::STOP, 0, 0), b"", "Stop");
        check(flavour, header(kind::INCIDENT, 0, 0), b"\x01\x00\x04lost", "Incident { number: 1, message: [108, 111");
        check(flavour, header(kind::INCIDENT, 0, 0), b"\x01\x00\x05lost", "refused");
        for kind in [kind::TRANSACTION_CONTEXT, kind::VIEW_CHANGE] {
            let expected = if flavour == Flavour::MySql { "Aside" } else { "refused" };
            check(flavour, header(kind, 0, 0), b"anything", expected);
        }
    }
}

#[test]
fn formats_other_than_the_fourth_are_refused() {
    let mut body = vec![0; 57];
    body[..8].copy_from_slice(b"\x04\x009.7.4\x00");
    body[56] = 19;
    let event = header(kind::FORMAT_DESCRIPTION, 0, 0);
    check(Flavour::MySql, event, &body, r#"server_version: "9.7.4", created: 0"#);
    body[56] = 27;
    check(Flavour::MySql, event, &body, "refused: 27 is no length of event headers");
    body[0] = 3;
    check(Flavour::MySql, event, &body, "refused: 3 is no version");
    check(Flavour::MySql, event, &body[..20], "refused");
}

#[test]
fn checksums_leave_out_that_a_file_is_in_use() {
    let closed = header(kind::FORMAT_DESCRIPTION, 0, 0);
    let open = header(kind::FORMAT_DESCRIPTION, flag::BINLOG_IN_USE, 0);
    let sum = checksum(closed, b"body");
    assert_eq!(verify_checksum(open, b"body", sum), Ok(()));
    assert!(verify_checksum(open, b"badly", sum).is_err());
    // Of other events the flag counts.
    let query = |flags| header(kind::QUERY, flags, 0);
    assert!(verify_checksum(query(flag::BINLOG_IN_USE), b"body", checksum(query(0), b"body")).is_err());
}

#[test]
fn headers_are_written_as_they_were_read() {
    let bytes: [u8; Header::LENGTH] = std::array::from_fn(|at| u8::try_from(at * 7).unwrap());
    assert_eq!(Header::parse(&bytes).unwrap().to_bytes(), bytes);
    assert!(Header::parse(&bytes[..18]).is_err());
}
