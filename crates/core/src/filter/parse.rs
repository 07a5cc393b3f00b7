//! A condition as it is written. The grammar is the part of SQL that needs no more than a row's own columns:
//!
//! ```text
//! or        = and { OR and }
//! and       = not { AND not }
//! not       = NOT not | ( or ) | predicate
//! predicate = column ( = | <> | != | < | <= | > | >= ) literal | column IS [NOT] NULL | column [NOT] IN ( literal {, literal} )
//! literal   = number | 'text' | TRUE | FALSE
//! ```
//!
//! Words are read without regard to case, names of columns are what the source stores; one that is no plain word stands in double
//! quotes or backticks.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Parentheses and NOTs within each other.
const DEPTH: usize = 64;

/// A condition over a table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All of two or more.
    And(Vec<Condition>),
    /// One at least of two or more.
    Or(Vec<Condition>),
    /// The opposite.
    Not(Box<Condition>),
    /// A column and a value.
    Compare(String, Comparison, Literal),
    /// A column is one of these.
    In(String, Vec<Literal>),
    /// A column is NULL.
    IsNull(String),
}

/// How a column's value and a literal compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A value as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// Digits, with a sign, a point and an exponent where there are such.
    Number(String),
    /// Between quotes.
    Text(String),
    /// `true` and `false`.
    Boolean(bool),
}

impl Condition {
    /// The columns that it looks at.
    pub fn columns(&self) -> BTreeSet<&str> {
        match self {
            Self::And(all) | Self::Or(all) => all.iter().flat_map(Self::columns).collect(),
            Self::Not(one) => one.columns(),
            Self::Compare(column, ..) | Self::In(column, _) | Self::IsNull(column) => BTreeSet::from([column.as_str()]),
        }
    }
}

impl Comparison {
    const SIGNS: [(&str, Self); 7] = [
        ("=", Self::Equal),
        ("<>", Self::Unequal),
        ("!=", Self::Unequal),
        ("<=", Self::LessOrEqual),
        ("<", Self::Less),
        (">=", Self::GreaterOrEqual),
        (">", Self::Greater),
    ];
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A word: a keyword, or the name of a column.
    Word(String),
    /// A name in quotes.
    Name(String),
    Literal(Literal),
    Comparison(Comparison),
    Open,
    Close,
    Comma,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Name(name) => f.write_str(&quoted(name)),
            Self::Literal(literal) => literal.fmt(f),
            Self::Comparison(comparison) => comparison.fmt(f),
            Self::Open => f.write_str("("),
            Self::Close => f.write_str(")"),
            Self::Comma => f.write_str(","),
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    /// The error says what is wrong, and where.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut reader = Reader { tokens: tokens(text)?, at: 0 };
        let condition = reader.any_of(0)?;
        match reader.next() {
            None => Ok(condition),
            Some(token) => {
                Err(format!("'{token}' follows a condition that is complete; join conditions with AND or OR"))
            }
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '(' => (Token::Open, &rest[1..]),
            ')' => (Token::Close, &rest[1..]),
            ',' => (Token::Comma, &rest[1..]),
            '\'' => {
                let (text, after) = between(rest, '\'').ok_or("a text lacks its closing quote '")?;
                (Token::Literal(Literal::Text(text)), after)
            }
            '"' | '`' => {
                let (name, after) =
                    between(rest, first).ok_or_else(|| format!("a name lacks its closing quote {first}"))?;
                (Token::Name(name), after)
            }
            _ if first.is_ascii_digit() || matches!(first, '+' | '-' | '.') => {
                let (number, after) =
                    number(rest).ok_or_else(|| format!("'{rest}' begins like a number and is none"))?;
                (Token::Literal(Literal::Number(number)), after)
            }
            _ if first.is_alphabetic() || first == '_' => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
                (word(&rest[..end]), &rest[end..])
            }
            _ => {
                let sign = Comparison::SIGNS.iter().find(|(sign, _)| rest.starts_with(sign));
                let (sign, comparison) = sign.ok_or_else(|| format!("'{first}' has no meaning in a condition"))?;
                (Token::Comparison(*comparison), &rest[sign.len()..])
            }
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

fn word(word: &str) -> Token {
    if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") {
        return Token::Literal(Literal::Boolean(word.eq_ignore_ascii_case("true")));
    }
    Token::Word(word.to_owned())
}

/// What stands between two quotes, a quote inside doubled, and what follows.
fn between(text: &str, quote: char) -> Option<(String, &str)> {
    let mut inside = String::new();
    let mut rest = text.strip_prefix(quote)?;
    loop {
        let end = rest.find(quote)?;
        inside.push_str(&rest[..end]);
        rest = &rest[end + quote.len_utf8()..];
        match rest.strip_prefix(quote) {
            Some(more) => {
                inside.push(quote);
                rest = more;
            }
            None => return Some((inside, rest)),
        }
    }
}

/// A number, and what follows it. What follows is no letter, digit or point.
fn number(text: &str) -> Option<(String, &str)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut end = usize::from(text.starts_with(['+', '-']));
    let whole = digits(&text[end..]);
    end += whole;
    let mut fraction = 0;
    if text[end..].starts_with('.') {
        fraction = digits(&text[end + 1..]);
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(&text[end + 1 + sign..]);
        if exponent == 0 {
            return None;
        }
        end += 1 + sign + exponent;
    }
    let rest = &text[end..];
    (!rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')).then(|| (text[..end].to_owned(), rest))
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    /// Passes over a keyword, if it is next.
    fn skip(&mut self, keyword: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword));
        self.at += usize::from(found);
        found
    }

    fn skip_token(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn found(&self) -> String {
        self.peek().map_or_else(|| "it ends".to_owned(), |token| format!("'{token}' stands"))
    }

    fn any_of(&mut self, depth: usize) -> Result<Condition, String> {
        let mut all = vec![self.all_of(depth)?];
        while self.skip("or") {
            all.push(self.all_of(depth)?);
        }
        Ok(one_or(all, Condition::Or))
    }

    fn all_of(&mut self, depth: usize) -> Result<Condition, String> {
        let mut all = vec![self.single(depth)?];
        while self.skip("and") {
            all.push(self.single(depth)?);
        }
        Ok(one_or(all, Condition::And))
    }

    fn single(&mut self, depth: usize) -> Result<Condition, String> {
        if depth > DEPTH {
            return Err(format!("more than {DEPTH} parentheses lie within each other"));
        }
        if self.skip("not") {
            return Ok(Condition::Not(Box::new(self.single(depth + 1)?)));
        }
        if self.skip_token(&Token::Open) {
            let inside = self.any_of(depth + 1)?;
            if !self.skip_token(&Token::Close) {
                return Err(format!("{} where a closing parenthesis is needed", self.found()));
            }
            return Ok(inside);
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Condition, String> {
        const KEYWORDS: [&str; 6] = ["and", "or", "not", "is", "in", "null"];
        let needed = format!("{} where the name of a column is needed", self.found());
        let column = match self.next() {
            Some(Token::Name(name)) => name,
            Some(Token::Word(word)) if !KEYWORDS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword)) => word,
            _ => return Err(needed),
        };
        if self.skip("is") {
            let not = self.skip("not");
            if !self.skip("null") {
                return Err(format!("{} after IS, which NULL or NOT NULL follows", self.found()));
            }
            return Ok(negated(Condition::IsNull(column), not));
        }
        let not = self.skip("not");
        if self.skip("in") {
            return Ok(negated(Condition::In(column, self.literals()?), not));
        }
        match self.peek() {
            Some(Token::Comparison(comparison)) if !not => {
                let comparison = *comparison;
                self.at += 1;
                Ok(Condition::Compare(column, comparison, self.literal()?))
            }
            _ => Err(format!(
                "{} after column {column}, which a comparison (=, <>, <, <=, >, >=), IS [NOT] NULL or [NOT] IN (..) follows",
                self.found()
            )),
        }
    }

    fn literals(&mut self) -> Result<Vec<Literal>, String> {
        if !self.skip_token(&Token::Open) {
            return Err(format!("{} after IN, which values in parentheses follow", self.found()));
        }
        let mut all = vec![self.literal()?];
        while self.skip_token(&Token::Comma) {
            all.push(self.literal()?);
        }
        if !self.skip_token(&Token::Close) {
            return Err(format!(
                "{} among the values of IN, which commas divide and a parenthesis closes",
                self.found()
            ));
        }
        Ok(all)
    }

    fn literal(&mut self) -> Result<Literal, String> {
        if let Some(Token::Literal(literal)) = self.peek() {
            let literal = literal.clone();
            self.at += 1;
            return Ok(literal);
        }
        if matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case("null")) {
            return Err("nothing compares with NULL: write IS NULL or IS NOT NULL".to_owned());
        }
        Err(format!("{} where a number, a text in single quotes, true or false is needed", self.found()))
    }
}

fn one_or(mut all: Vec<Condition>, of: impl Fn(Vec<Condition>) -> Condition) -> Condition {
    if all.len() == 1 { all.remove(0) } else { of(all) }
}

fn negated(condition: Condition, not: bool) -> Condition {
    if not { Condition::Not(Box::new(condition)) } else { condition }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::SIGNS.iter().find(|(_, comparison)| comparison == self).map_or("?", |(sign, _)| sign))
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(digits) => f.write_str(digits),
            Self::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Self::Boolean(value) => value.fmt(f),
        }
    }
}

/// As it is read back.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, all: &[Self], word: &str| {
            all.iter().enumerate().try_for_each(|(at, one)| {
                let word = if at == 0 { "" } else { word };
                match one {
                    Self::And(_) | Self::Or(_) => write!(f, "{word}({one})"),
                    one => write!(f, "{word}{one}"),
                }
            })
        };
        match self {
            Self::And(all) => joined(f, all, " and "),
            Self::Or(all) => joined(f, all, " or "),
            Self::Not(one) => write!(f, "not ({one})"),
            Self::Compare(column, comparison, literal) => write!(f, "{} {comparison} {literal}", quoted(column)),
            Self::In(column, literals) => {
                let literals: Vec<String> = literals.iter().map(ToString::to_string).collect();
                write!(f, "{} in ({})", quoted(column), literals.join(", "))
            }
            Self::IsNull(column) => write!(f, "{} is null", quoted(column)),
        }
    }
}
