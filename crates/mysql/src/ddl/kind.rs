//! What a QUERY event is to transactions: their beginnings and ends come as statements, those of XA with an identifier.

use std::fmt;

use super::token::{Token, tokens};
use crate::server::Flavour;

/// The identifier of an XA transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Xid {
    /// Whose format the two parts have; 1 where the statement names none.
    pub(crate) format: u32,
    /// The global transaction, at most 64 bytes.
    pub(crate) global: Vec<u8>,
    /// The branch, at most 64 bytes.
    pub(crate) branch: Vec<u8>,
}

/// As SQL writes it.
impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            f.write_str("X'")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("'")
        };
        hex(f, &self.global)?;
        f.write_str(",")?;
        hex(f, &self.branch)?;
        write!(f, ",{}", self.format)
    }
}

/// A statement by what it does to the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StatementKind {
    Begin,
    Commit,
    Rollback,
    /// SAVEPOINT, ROLLBACK TO and RELEASE. The log holds no row of what was rolled back to a savepoint, or takes it back by
    /// rows of its own; so these change nothing here.
    Savepoint,
    XaStart(Xid),
    XaEnd(Xid),
    XaPrepare(Xid),
    /// Also in one phase, without a PREPARE before it.
    XaCommit(Xid),
    XaRollback(Xid),
    Other,
}

/// Longer statements are none of these, or hold comments that nobody writes into them.
const LONGEST: usize = 1024;

/// What the statement is. An XA statement whose identifier cannot be read is [`StatementKind::Other`].
pub(crate) fn statement_kind(sql: &[u8]) -> StatementKind {
    // By far the most frequent.
    match sql {
        b"BEGIN" => return StatementKind::Begin,
        b"COMMIT" => return StatementKind::Commit,
        _ => {}
    }
    let first = sql.trim_ascii_start().first().map(u8::to_ascii_uppercase);
    // B, C, S, R, X, or a comment before them.
    if sql.len() > LONGEST || !matches!(first, Some(b'B' | b'C' | b'S' | b'R' | b'X' | b'/' | b'-' | b'#')) {
        return StatementKind::Other;
    }
    // The mode changes nothing in these statements: neither double quotes nor backslashes are written into them.
    let tokens = tokens(Flavour::MySql, &String::from_utf8_lossy(sql), 0);
    let word = |at: usize, keyword: &str| tokens.get(at).is_some_and(|token| token.is(keyword));
    let transaction = |at| tokens.len() <= at || word(at, "WORK") || tokens.get(at).is_some_and(|t| t.is_sign(';'));
    if word(0, "XA") {
        return xa(&tokens);
    }
    if (word(0, "BEGIN") && transaction(1)) || (word(0, "START") && word(1, "TRANSACTION")) {
        StatementKind::Begin
    } else if word(0, "COMMIT") {
        StatementKind::Commit
    } else if word(0, "SAVEPOINT")
        || (word(0, "RELEASE") && word(1, "SAVEPOINT"))
        || (word(0, "ROLLBACK") && (word(1, "TO") || (word(1, "WORK") && word(2, "TO"))))
    {
        StatementKind::Savepoint
    } else if word(0, "ROLLBACK") {
        StatementKind::Rollback
    } else {
        StatementKind::Other
    }
}

fn xa(tokens: &[Token]) -> StatementKind {
    let verb = tokens.get(1).and_then(Token::name).unwrap_or_default().to_ascii_uppercase();
    let make: fn(Xid) -> StatementKind = match verb.as_str() {
        "START" | "BEGIN" => StatementKind::XaStart,
        "END" => StatementKind::XaEnd,
        "PREPARE" => StatementKind::XaPrepare,
        "COMMIT" => StatementKind::XaCommit,
        "ROLLBACK" => StatementKind::XaRollback,
        _ => return StatementKind::Other,
    };
    tokens.get(2..).and_then(xid).map_or(StatementKind::Other, make)
}

/// `gtrid[, bqual[, formatID]]`, each part a text, `X'..'`, `0x..` or `B'..'`.
fn xid(tokens: &[Token]) -> Option<Xid> {
    let (global, rest) = bytes(tokens)?;
    let mut xid = Xid { format: 1, global, branch: Vec::new() };
    if let Some(rest) = after_comma(rest) {
        let (branch, rest) = bytes(rest)?;
        xid.branch = branch;
        if let Some([format, ..]) = after_comma(rest) {
            xid.format = match format {
                Token::Word(number) => match number.strip_prefix("0x") {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => number.parse().ok()?,
                },
                _ => return None,
            };
        }
    }
    (xid.global.len() <= 64 && xid.branch.len() <= 64).then_some(xid)
}

fn after_comma(tokens: &[Token]) -> Option<&[Token]> {
    tokens.split_first().filter(|(first, _)| first.is_sign(',')).map(|(_, rest)| rest)
}

fn bytes(tokens: &[Token]) -> Option<(Vec<u8>, &[Token])> {
    match tokens {
        [Token::Text(text), rest @ ..] => Some((text.clone(), rest)),
        [Token::Word(x), Token::Text(digits), rest @ ..] if x.eq_ignore_ascii_case("X") => Some((hex(digits)?, rest)),
        [Token::Word(number), rest @ ..] => Some((hex(number.strip_prefix("0x")?.as_bytes())?, rest)),
        _ => None,
    }
}

fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_and_ends_are_told_apart() {
        let xid = |format, global: &str, branch: &str| Xid { format, global: global.into(), branch: branch.into() };
        for (sql, expected) in [
            ("BEGIN", StatementKind::Begin),
            ("begin work", StatementKind::Begin),
            ("/* app */ BEGIN", StatementKind::Begin),
            ("START TRANSACTION READ WRITE", StatementKind::Begin),
            ("BEGIN NOT ATOMIC SELECT 1; END", StatementKind::Other),
            ("COMMIT", StatementKind::Commit),
            ("COMMIT AND CHAIN", StatementKind::Commit),
            ("ROLLBACK", StatementKind::Rollback),
            ("ROLLBACK /* added by the server */", StatementKind::Rollback),
            ("ROLLBACK TO `a`", StatementKind::Savepoint),
            ("ROLLBACK TO SAVEPOINT a", StatementKind::Savepoint),
            ("SAVEPOINT `a b`", StatementKind::Savepoint),
            ("RELEASE SAVEPOINT a", StatementKind::Savepoint),
            ("XA START X'6162',X'',1", StatementKind::XaStart(xid(1, "ab", ""))),
            ("XA END X'6162',X'63',4294967295", StatementKind::XaEnd(xid(4_294_967_295, "ab", "c"))),
            ("XA PREPARE X'61',X'62',7", StatementKind::XaPrepare(xid(7, "a", "b"))),
            ("XA COMMIT X'6162',X'',1", StatementKind::XaCommit(xid(1, "ab", ""))),
            ("XA COMMIT 'ab','',1 ONE PHASE", StatementKind::XaCommit(xid(1, "ab", ""))),
            ("xa rollback 0x6162", StatementKind::XaRollback(xid(1, "ab", ""))),
            ("XA ROLLBACK X'616'", StatementKind::Other),
            ("XA RECOVER", StatementKind::Other),
            ("XA COMMIT", StatementKind::Other),
            ("CREATE TABLE t (a INT)", StatementKind::Other),
            ("SET @a = 1", StatementKind::Other),
            ("", StatementKind::Other),
        ] {
            assert_eq!(statement_kind(sql.as_bytes()), expected, "{sql}");
        }
    }
}
