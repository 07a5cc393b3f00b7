//! Every character of every set, as the servers themselves convert it.

use calve_testkit::servers::{BINLOG_SERVERS, REPLICATION_USER, Server as TestServer};
use mysql_async::prelude::Queryable;

use super::*;
use crate::config::ConnectConfig;
use crate::connection;

/// Sets of the servers and the lengths of their longest characters.
const SETS: &str = "SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS \
                     WHERE CHARACTER_SET_NAME <> 'binary' ORDER BY CHARACTER_SET_NAME";
const COLLATIONS: &str = "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS \
                           WHERE ID IS NOT NULL AND CHARACTER_SET_NAME <> 'binary'";
/// Characters in one question.
const BATCH: usize = 20_000;

/// All characters that a set may have: those of the basic plane for the sets that have no others.
fn characters(name: &str) -> Vec<char> {
    let all = matches!(name, "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030");
    let last = if all { '\u{10FFFF}' } else { '\u{FFFF}' };
    ('\u{0}'..=last).collect()
}

/// Each character is converted into the set by the server and back by the tables. What the set does not have becomes a
/// question mark.
#[tokio::test]
async fn every_character_is_decoded_as_the_server_encodes_it() {
    for (kind, version) in BINLOG_SERVERS {
        let url = TestServer::shared(kind, version).unwrap().url(REPLICATION_USER, "").unwrap();
        let mut conn = connection::open(&ConnectConfig::parse(&url).unwrap()).await.unwrap();
        let sets: Vec<(String, u8)> = conn.query(SETS).await.unwrap();
        for (name, _) in &sets {
            let charset = Charset::by_name(name).unwrap_or_else(|| panic!("{version} {name} is not known"));
            let mut decoded = Vec::new();
            let (mut known, mut wrong) = (0, Vec::new());
            for batch in characters(name).chunks(BATCH) {
                let utf32: Vec<String> = batch.iter().map(|c| format!("{:08X}", u32::from(*c))).collect();
                let utf32 = utf32.concat();
                let sql = format!("SELECT CAST(CONVERT(CONVERT(X'{utf32}' USING utf32) USING {name}) AS BINARY)");
                let bytes: Option<Option<Vec<u8>>> = conn.query_first(sql).await.unwrap();
                let bytes = bytes.flatten().unwrap_or_else(|| panic!("{version} {name} gave nothing"));
                decoded.clear();
                charset.decode(&bytes, &mut decoded).unwrap_or_else(|error| panic!("{version}: {error}"));
                let found: Vec<char> = std::str::from_utf8(&decoded).unwrap().chars().collect();
                assert_eq!(found.len(), batch.len(), "{version} {name}");
                for (found, expected) in found.iter().zip(batch) {
                    known += usize::from(found == expected);
                    if found != expected && *found != '?' {
                        let back: Option<Option<String>> = conn.query_first(round_trip(name, *expected)).await.unwrap();
                        if back.flatten() != Some(found.to_string()) {
                            wrong.push(format!("U+{:04X} as U+{:04X}", u32::from(*expected), u32::from(*found)));
                        }
                    }
                }
            }
            assert_eq!(wrong, Vec::<String>::new(), "{version} {name}");
            assert!(known > 90, "{version} {name}: {known} characters");
        }
        let collations: Vec<(u32, String)> = conn.query(COLLATIONS).await.unwrap();
        for (id, name) in collations {
            assert_eq!(Charset::by_collation_id(id), Charset::by_name(&name), "{version} {id}");
        }
    }
}

/// Some characters share a code with others: the server's own way there and back.
fn round_trip(name: &str, c: char) -> String {
    format!("SELECT CONVERT(CONVERT(CONVERT(X'{:08X}' USING utf32) USING {name}) USING utf8mb4)", u32::from(c))
}

/// All pairs of bytes that the server takes for one character, decoded as the server does.
#[tokio::test]
async fn every_pair_of_bytes_is_decoded_as_the_server_does() {
    for (kind, version) in BINLOG_SERVERS {
        let url = TestServer::shared(kind, version).unwrap().url(REPLICATION_USER, "").unwrap();
        let mut conn = connection::open(&ConnectConfig::parse(&url).unwrap()).await.unwrap();
        let sets: Vec<(String, u8)> = conn.query(SETS).await.unwrap();
        for (name, _) in
            sets.iter().filter(|(_, length)| *length > 1 && *length < 5).filter(|(name, _)| !name.starts_with("utf"))
        {
            let charset = Charset::by_name(name).unwrap();
            // What is a character by itself begins no other.
            let alone = |byte: &u8| charset.decode(&[*byte], &mut Vec::new()).is_ok();
            for first in (0x81..=0xFE_u8).filter(|byte| !alone(byte)) {
                // As many questions as there are second bytes, in one row.
                let pairs: Vec<[u8; 2]> = (0x30..=0xFE_u8).map(|second| [first, second]).collect();
                let parts: Vec<String> = pairs
                    .iter()
                    .map(|[a, b]| format!("HEX(CONVERT(CONVERT(X'{a:02X}{b:02X}' USING {name}) USING utf32))"))
                    .collect();
                let row: Option<mysql_async::Row> =
                    conn.query_first(format!("SELECT {}", parts.join(","))).await.unwrap();
                let row = row.unwrap();
                for (at, pair) in pairs.iter().enumerate() {
                    let theirs: Option<String> = row.get_opt(at).and_then(std::result::Result::ok);
                    let point = theirs.filter(|hex| hex.len() == 8).and_then(|hex| u32::from_str_radix(&hex, 16).ok());
                    let theirs = point.and_then(char::from_u32).filter(|c| *c != '?').map(String::from);
                    let mut ours = Vec::new();
                    let decoded = charset.decode(pair, &mut ours).ok().map(|()| String::from_utf8(ours).unwrap());
                    // Two single bytes are two characters, and not of interest here.
                    let decoded = decoded.filter(|text| text.chars().count() == 1);
                    assert_eq!(decoded, theirs, "{version} {name} {pair:02x?}");
                }
            }
        }
    }
}
