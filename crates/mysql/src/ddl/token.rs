//! Statements taken apart into words, names, texts and signs, by the lexical rules of both servers (MySQL manual, "Language
//! Structure"; MariaDB manual, "Comment Syntax").

use crate::server::Flavour;

/// `sql_mode` bits that change how a statement is read, as the log carries them.
const ANSI_QUOTES: u64 = 1 << 2;
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A keyword, a name or a number: what stands without quotes.
    Word(String),
    /// A name in quotes.
    Name(String),
    /// A text in quotes.
    Text(Vec<u8>),
    /// Any other sign.
    Sign(char),
}

impl Token {
    /// Whether it is this keyword, given in upper case.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    pub(crate) fn is_sign(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }

    /// A name, in quotes or not.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Word(name) | Self::Name(name) => Some(name),
            Self::Text(_) | Self::Sign(_) => None,
        }
    }
}

/// The statement's tokens. Comments are left out; what stands in a comment that the servers execute (`/*!`, `/*!50100`, on
/// MariaDB `/*M!`) is not: a comment that the server passed over for its version is logged without its `!`.
pub(crate) fn tokens(flavour: Flavour, sql: &str, sql_mode: u64) -> Vec<Token> {
    let mut reader = Reader { rest: sql, flavour, sql_mode, in_comment: 0 };
    let mut tokens = Vec::new();
    while let Some(token) = reader.next() {
        tokens.push(token);
    }
    tokens
}

struct Reader<'a> {
    rest: &'a str,
    flavour: Flavour,
    sql_mode: u64,
    /// Executed comments that are open.
    in_comment: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<Token> {
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}' || c == '\0');
            if !self.skip_comment() {
                break;
            }
        }
        let first = self.rest.chars().next()?;
        Some(match first {
            '`' => Token::Name(String::from_utf8_lossy(&self.quoted('`', false)).into_owned()),
            '"' if self.sql_mode & ANSI_QUOTES != 0 => {
                Token::Name(String::from_utf8_lossy(&self.quoted('"', false)).into_owned())
            }
            '\'' | '"' => Token::Text(self.quoted(first, self.sql_mode & NO_BACKSLASH_ESCAPES == 0)),
            c if is_word(c) => {
                let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
                Token::Word(self.take(end).to_owned())
            }
            sign => {
                self.take(sign.len_utf8());
                Token::Sign(sign)
            }
        })
    }

    fn take(&mut self, bytes: usize) -> &str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Passes over a comment, or over the signs that enclose an executed one.
    fn skip_comment(&mut self) -> bool {
        if let Some(rest) = self.rest.strip_prefix("*/").filter(|_| self.in_comment > 0) {
            self.in_comment -= 1;
            self.rest = rest;
            return true;
        }
        if let Some(rest) = self.rest.strip_prefix('#') {
            self.rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            return true;
        }
        if let Some(rest) = self.rest.strip_prefix("--") {
            // Two dashes are a comment only before white space; otherwise a sign each.
            if rest.starts_with(|c: char| !c.is_ascii_whitespace() && !c.is_ascii_control()) {
                return false;
            }
            self.rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            return true;
        }
        let Some(rest) = self.rest.strip_prefix("/*") else { return false };
        let executed = rest.strip_prefix('!').or_else(|| match self.flavour {
            Flavour::MariaDb => rest.strip_prefix("M!"),
            Flavour::MySql => None,
        });
        self.rest = match executed {
            Some(rest) => {
                self.in_comment += 1;
                let digits = rest.bytes().take(6).take_while(u8::is_ascii_digit).count();
                // Five digits or six, and nothing where there are fewer.
                let digits = if digits < 5 { 0 } else { digits };
                rest.get(digits..).unwrap_or_default()
            }
            None => rest.split_once("*/").map_or("", |(_, rest)| rest),
        };
        true
    }

    /// What stands in quotes, a doubled quote as one. A missing end is the end of the statement.
    fn quoted(&mut self, quote: char, escapes: bool) -> Vec<u8> {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1).peekable();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            if c == '\\' && escapes {
                match chars.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, 't')) => out.push('\t'),
                    Some((_, 'r')) => out.push('\r'),
                    Some((_, 'b')) => out.push('\u{8}'),
                    Some((_, '0')) => out.push('\0'),
                    Some((_, 'Z')) => out.push('\u{1a}'),
                    Some((_, other)) => out.push(other),
                    None => {}
                }
            } else if c != quote {
                out.push(c);
            } else if chars.next_if(|(_, next)| *next == quote).is_some() {
                out.push(quote);
            } else {
                end = at + quote.len_utf8();
                break;
            }
        }
        self.take(end);
        out.into_bytes()
    }
}

/// Letters, digits, `$`, `_`, and everything beyond ASCII; a name may begin with a digit.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '$' || c == '_' || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_taken_apart_as_the_servers_do() {
        let shown = |flavour, sql: &str, mode| {
            let show = |token: &Token| match token {
                Token::Word(word) => word.clone(),
                Token::Name(name) => format!("`{name}`"),
                Token::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
                Token::Sign(sign) => sign.to_string(),
            };
            tokens(flavour, sql, mode).iter().map(show).collect::<Vec<_>>().join(" ")
        };
        for (sql, expected) in [
            ("a /* b */ c -- d\ne # f\ng", "a c e g"),
            ("a/*!50100 b*/c", "a b c"),
            ("a /*!b /* c */ d */ e", "a b d e"),
            ("a /*!1 b */", "a 1 b"),
            ("`a``b`.`c`", "`a`b` . `c`"),
            (r#"'it''s \'x\'' "y" 'z"#, "'it's 'x'' 'y' 'z'"),
            ("1a.2b $c_ü", "1a . 2b $c_ü"),
            ("a--b", "a - - b"),
            ("a /* open", "a"),
            ("'\\", "''"),
            ("*/ a", "* / a"),
        ] {
            assert_eq!(shown(Flavour::MySql, sql, 0), expected, "{sql}");
        }
        assert_eq!(shown(Flavour::MySql, "a /*M!100301 b */ c", 0), "a c");
        assert_eq!(shown(Flavour::MariaDb, "a /*M!100301 b */ c", 0), "a b c");
        assert_eq!(shown(Flavour::MySql, r#""a""b" 'c\'"#, ANSI_QUOTES | NO_BACKSLASH_ESCAPES), "`a\"b` 'c\\'");
    }
}
