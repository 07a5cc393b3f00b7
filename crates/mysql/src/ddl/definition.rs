//! A column as a statement defines it (MySQL manual, "CREATE TABLE Statement", `column_definition`; MariaDB manual, "CREATE
//! TABLE", "Column Definitions").
//!
//! Every word of a definition is known here or the definition is not understood: a word that was passed over could be the one
//! that changes what rows hold.

use super::cursor::Cursor;
use super::token::Token;
use super::written_type::WrittenType;

/// What rows get that came before the column, or come without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Default {
    Null,
    Value,
}

/// A column, defined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "these are the statement's own yes-or-no answers")]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) ty: WrittenType,
    /// None where the statement says neither NULL nor NOT NULL.
    pub(crate) nullable: Option<bool>,
    pub(crate) default: Option<Default>,
    pub(crate) auto_increment: bool,
    /// An UPDATE that does not name it sets it.
    pub(crate) on_update: bool,
    pub(crate) generated: bool,
    /// It is the primary key by itself.
    pub(crate) primary: bool,
    /// It is unique, checked, or refers to another table.
    pub(crate) constrained: bool,
}

/// Where a column goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    First,
    After(String),
}

impl Definition {
    /// Reads a name, its definition, and where the column goes if that is said; nothing may follow. None where it is not
    /// understood.
    pub(super) fn read(mut cursor: Cursor<'_>, real_as_float: bool) -> Option<(Self, Option<Place>)> {
        let name = cursor.name()?.to_owned();
        Self::read_named(name, cursor, real_as_float)
    }

    /// The same after the name.
    fn read_named(name: String, mut cursor: Cursor<'_>, real_as_float: bool) -> Option<(Self, Option<Place>)> {
        let serial = cursor.skip("SERIAL");
        let ty = if serial { WrittenType::serial() } else { WrittenType::read(&mut cursor, real_as_float)? };
        let mut definition = Self {
            name,
            ty,
            nullable: serial.then_some(false),
            default: None,
            auto_increment: serial,
            on_update: false,
            generated: false,
            primary: false,
            constrained: false,
        };
        while !cursor.is_empty() {
            if cursor.skip("FIRST") {
                return cursor.is_empty().then_some((definition, Some(Place::First)));
            }
            if cursor.skip("AFTER") {
                let after = cursor.name()?.to_owned();
                return cursor.is_empty().then_some((definition, Some(Place::After(after))));
            }
            if !definition.ty.attribute(&mut cursor)? {
                definition.attribute(&mut cursor)?;
            }
        }
        Some((definition, None))
    }

    /// One attribute that is none of the type.
    fn attribute(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let Token::Word(word) = cursor.next()? else { return None };
        match word.to_ascii_uppercase().as_str() {
            "NULL" => self.nullable = Some(true),
            "NOT" if cursor.skip("NULL") => self.nullable = Some(false),
            // In a secondary engine; of a CHECK.
            "NOT" if cursor.skip("SECONDARY") || cursor.skip("ENFORCED") => {}
            "ENFORCED" | "VISIBLE" | "INVISIBLE" => {}
            "DEFAULT" => {
                let is_null = cursor.skip("NULL");
                if !is_null {
                    value(cursor)?;
                }
                self.default = Some(if is_null { Default::Null } else { Default::Value });
            }
            // `SERIAL DEFAULT VALUE` after an integer type.
            "SERIAL" if cursor.skip_all(&["DEFAULT", "VALUE"]) => {
                (self.nullable, self.auto_increment) = (Some(false), true);
            }
            "ON" if cursor.skip("UPDATE") => {
                value(cursor)?;
                self.on_update = true;
            }
            "AUTO_INCREMENT" => self.auto_increment = true,
            "UNIQUE" => {
                cursor.skip("KEY");
                self.constrained = true;
            }
            "PRIMARY" => {
                cursor.skip("KEY");
                self.primary = true;
            }
            "KEY" => self.primary = true,
            "COMMENT" => drop(cursor.text()?),
            "COLUMN_FORMAT" | "STORAGE" => drop(cursor.name()?),
            "ENGINE_ATTRIBUTE" | "SECONDARY_ENGINE_ATTRIBUTE" => {
                cursor.skip_sign('=');
                cursor.text()?;
            }
            "GENERATED" if cursor.skip_all(&["ALWAYS", "AS"]) => self.computed(cursor)?,
            "AS" => self.computed(cursor)?,
            "REFERENCES" => {
                references(cursor)?;
                self.constrained = true;
            }
            "CONSTRAINT" => {
                if !cursor.skip("CHECK") {
                    cursor.name()?;
                    cursor.skip("CHECK").then_some(())?;
                }
                cursor.parenthesised()?;
                self.constrained = true;
            }
            "CHECK" => {
                cursor.parenthesised()?;
                self.constrained = true;
            }
            // MariaDB, of tables that keep their history.
            "WITH" | "WITHOUT" if cursor.skip_all(&["SYSTEM", "VERSIONING"]) => {}
            _ => return None,
        }
        Some(())
    }

    fn computed(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        cursor.parenthesised()?;
        self.generated = true;
        let _ = ["VIRTUAL", "STORED", "PERSISTENT"].iter().any(|kind| cursor.skip(kind));
        Some(())
    }
}

/// A value: a literal, a call, or an expression in parentheses.
fn value(cursor: &mut Cursor<'_>) -> Option<()> {
    if cursor.skip_all(&["NEXT", "VALUE", "FOR"]) {
        return qualified_name(cursor);
    }
    if cursor.0.first()?.is_sign('(') {
        cursor.parenthesised()?;
        return Some(());
    }
    while cursor.skip_sign('-') || cursor.skip_sign('+') {}
    match cursor.next()? {
        Token::Text(_) => {}
        Token::Word(word) => {
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            if is_number {
                fraction(word, cursor)?;
            } else if matches!(cursor.0.first(), Some(Token::Sign('('))) {
                cursor.parenthesised()?;
            }
        }
        // `.5`
        Token::Sign('.') => drop(cursor.number()?),
        Token::Name(_) | Token::Sign(_) => return None,
    }
    // Texts one after the other are one; before a text stands what it is of: `_utf8mb4'x'`, `x'41'`, `b'1'`, `date '..'`.
    while matches!(cursor.0.first(), Some(Token::Text(_))) {
        cursor.next();
    }
    Some(())
}

/// What follows the digits before the point: `1.5`, `1e-5`, `1.5e+5`.
fn fraction(digits: &str, cursor: &mut Cursor<'_>) -> Option<()> {
    let mut last = digits;
    if cursor.skip_sign('.')
        && let Some(Token::Word(more)) = cursor.0.first().filter(|token| starts_with_digit(token))
    {
        last = more;
        cursor.next();
    }
    if !last.starts_with("0x") && last.ends_with(['e', 'E']) && (cursor.skip_sign('-') || cursor.skip_sign('+')) {
        cursor.number()?;
    }
    Some(())
}

fn starts_with_digit(token: &Token) -> bool {
    token.name().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

fn qualified_name(cursor: &mut Cursor<'_>) -> Option<()> {
    cursor.name()?;
    if cursor.skip_sign('.') {
        cursor.name()?;
    }
    Some(())
}

/// `REFERENCES table [(columns)] [MATCH ..] [ON DELETE ..] [ON UPDATE ..]`.
fn references(cursor: &mut Cursor<'_>) -> Option<()> {
    qualified_name(cursor)?;
    if cursor.0.first().is_some_and(|token| token.is_sign('(')) {
        cursor.parenthesised()?;
    }
    if cursor.skip("MATCH") {
        cursor.name()?;
    }
    while cursor.skip_all(&["ON", "DELETE"]) || cursor.skip_all(&["ON", "UPDATE"]) {
        let known = cursor.skip("RESTRICT")
            || cursor.skip("CASCADE")
            || cursor.skip_all(&["SET", "NULL"])
            || cursor.skip_all(&["SET", "DEFAULT"])
            || cursor.skip_all(&["NO", "ACTION"]);
        known.then_some(())?;
    }
    Some(())
}
