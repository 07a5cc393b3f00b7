//! The type of a column as its server writes it (`information_schema.COLUMNS.COLUMN_TYPE`): `int(10) unsigned`,
//! `enum('a','b')`, `datetime(3)`. It says what a table map leaves out unless its metadata is full.

/// A type taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredType {
    /// In lower case: `int`, `double`, `enum`.
    pub(crate) base: String,
    /// Numbers in its parentheses.
    pub(crate) numbers: Vec<u32>,
    /// Labels of an ENUM or SET.
    pub(crate) labels: Vec<Box<str>>,
    pub(crate) unsigned: bool,
    pub(crate) zerofill: bool,
    /// What MariaDB writes in a comment behind types stored in an older or another way: `COMPRESSED`, `mariadb-5.3`.
    pub(crate) comment: String,
}

impl DeclaredType {
    /// None where the text is no type.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (base, mut rest) = text.split_at(end);
        let mut declared = Self {
            base: base.to_ascii_lowercase(),
            numbers: Vec::new(),
            labels: Vec::new(),
            unsigned: false,
            zerofill: false,
            comment: String::new(),
        };
        if base.is_empty() {
            return None;
        }
        if let Some(inside) = rest.strip_prefix('(') {
            rest = declared.arguments(inside)?;
        }
        if let Some((before, comment)) = rest.split_once("/*") {
            declared.comment = comment.split("*/").next()?.trim().to_owned();
            rest = before;
        }
        for word in rest.split_ascii_whitespace() {
            match word {
                "unsigned" => declared.unsigned = true,
                "zerofill" => declared.zerofill = true,
                // Attributes that say nothing of how values are stored, `precision` of `double` among them.
                _ => {}
            }
        }
        Some(declared)
    }

    /// What stands up to the closing parenthesis; returns what follows it.
    fn arguments<'a>(&mut self, mut rest: &'a str) -> Option<&'a str> {
        loop {
            rest = if rest.starts_with('\'') {
                let (label, after) = quoted(rest)?;
                self.labels.push(label.into_boxed_str());
                after
            } else {
                let end = rest.find(|c: char| !c.is_ascii_digit())?;
                let (number, after) = rest.split_at(end);
                self.numbers.push(number.parse().ok()?);
                after
            };
            if let Some(after) = rest.strip_prefix(')') {
                return Some(after);
            }
            rest = rest.strip_prefix(',')?.trim_start();
        }
    }
}

/// A label in quotes, as `append_unescaped` of the server writes it, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut label = String::new();
    let mut chars = text.strip_prefix('\'')?.char_indices();
    let body = text.get(1..)?;
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if body.get(at + 1..)?.starts_with('\'') => {
                label.push('\'');
                chars.next();
            }
            '\'' => return Some((label, body.get(at + 1..)?)),
            '\\' => label.push(match chars.next()?.1 {
                '0' => '\0',
                'n' => '\n',
                'r' => '\r',
                other => other,
            }),
            c => label.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_taken_apart() {
        fn check(
            text: &str,
            base: &str,
            numbers: &[u32],
            labels: &[&str],
            unsigned: bool,
            zerofill: bool,
            comment: &str,
        ) {
            let found = DeclaredType::parse(text);
            let expected = DeclaredType {
                base: base.into(),
                numbers: numbers.to_vec(),
                labels: labels.iter().map(|label| (*label).into()).collect(),
                unsigned,
                zerofill,
                comment: comment.into(),
            };
            assert_eq!(found, Some(expected), "{text}");
        }
        check("int", "int", &[], &[], false, false, "");
        check("bigint(20) unsigned zerofill", "bigint", &[20], &[], true, true, "");
        check("decimal(10,2)", "decimal", &[10, 2], &[], false, false, "");
        check("enum('a','it''s','x,y)','\\\\n\\n')", "enum", &[], &["a", "it's", "x,y)", "\\n\n"], false, false, "");
        check("set('é','')", "set", &[], &["é", ""], false, false, "");
        check("time(3) /* mariadb-5.3 */", "time", &[3], &[], false, false, "mariadb-5.3");
        check("varchar(20) /*M!100301 COMPRESSED*/", "varchar", &[20], &[], false, false, "M!100301 COMPRESSED");
        for text in ["", "(1)", "enum('a", "int(", "int(x)", "enum('a' 'b')"] {
            assert_eq!(DeclaredType::parse(text), None, "{text}");
        }
    }
}
