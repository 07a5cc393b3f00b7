//! One change of an ALTER TABLE to columns, the key or the character set, as the statement says it.

use super::cursor::{Cursor, split_at_commas};
use super::definition::{Definition, Place};
use super::token::Token;

/// What an ALTER TABLE does to columns and key, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alteration {
    pub(crate) changes: Vec<TableChange>,
    /// `ALTER IGNORE TABLE` (MariaDB): what does not fit is made to.
    pub(crate) ignore: bool,
    /// It adds what rows may not fit: a unique index, a constraint, partitions. A table refuses such a statement, or has only rows that
    /// fit.
    pub(crate) constrains: bool,
    /// A unique index may be among that.
    pub(crate) unique: bool,
    /// Columns that are given a default, by nothing else.
    pub(crate) defaults: Vec<String>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableChange {
    Add {
        definition: Definition,
        place: Option<Place>,
        if_not_exists: bool,
    },
    Drop {
        column: String,
        if_exists: bool,
    },
    /// MODIFY and CHANGE: a column, perhaps under another name.
    Define {
        column: String,
        definition: Definition,
        place: Option<Place>,
        if_exists: bool,
    },
    Rename {
        from: String,
        to: String,
        if_exists: bool,
    },
    DropKey,
    AddKey(Vec<String>),
    /// Of all text columns, and of those to come.
    ConvertTo(String),
    /// Of the text columns to come.
    DefaultCharacterSet(String),
    /// Something else that may change columns or rows, in the statement's words.
    Other(String),
}

impl TableChange {
    /// What follows `ADD [COLUMN]`, where that is no index and no constraint; and whether there is what rows may not fit among the columns
    /// in parentheses. None where it is not understood.
    pub(super) fn add(mut cursor: Cursor<'_>, real_as_float: bool) -> Option<(Vec<Self>, bool)> {
        let if_not_exists = skip_if_exists(&mut cursor);
        if !cursor.0.first()?.is_sign('(') {
            let (definition, place) = Definition::read(cursor, real_as_float)?;
            return Some((vec![Self::Add { definition, place, if_not_exists }], false));
        }
        let inside = cursor.parenthesised()?;
        cursor.is_empty().then_some(())?;
        let (mut added, mut constrains) = (Vec::new(), false);
        for part in split_at_commas(inside) {
            if let Some(index) = unnamed_index(part) {
                constrains |= ["UNIQUE", "FOREIGN", "CHECK"].iter().any(|kind| index.is(kind));
                continue;
            }
            let (definition, None) = Definition::read(Cursor(part), real_as_float)? else { return None };
            added.push(Self::Add { definition, place: None, if_not_exists });
        }
        Some((added, constrains))
    }

    /// What follows `DROP [COLUMN]`.
    pub(super) fn drop(mut cursor: Cursor<'_>) -> Option<Self> {
        let if_exists = skip_if_exists(&mut cursor);
        let column = cursor.name()?.to_owned();
        let _ = cursor.skip("RESTRICT") || cursor.skip("CASCADE");
        cursor.is_empty().then_some(Self::Drop { column, if_exists })
    }

    /// What follows `MODIFY` or `CHANGE`.
    pub(super) fn define(mut cursor: Cursor<'_>, renames: bool, real_as_float: bool) -> Option<Self> {
        cursor.skip("COLUMN");
        let if_exists = skip_if_exists(&mut cursor);
        let column = if renames { cursor.name()? } else { cursor.0.first()?.name()? }.to_owned();
        let (definition, place) = Definition::read(cursor, real_as_float)?;
        Some(Self::Define { column, definition, place, if_exists })
    }

    /// What follows `RENAME COLUMN`.
    pub(super) fn rename(mut cursor: Cursor<'_>) -> Option<Self> {
        let if_exists = skip_if_exists(&mut cursor);
        let from = cursor.name()?.to_owned();
        cursor.skip("TO").then_some(())?;
        let to = cursor.name()?.to_owned();
        cursor.is_empty().then_some(Self::Rename { from, to, if_exists })
    }

    /// What follows `ADD PRIMARY`: `KEY [USING ..] [name] (column [(length)] [ASC | DESC], ..)`.
    pub(super) fn add_key(mut cursor: Cursor<'_>) -> Option<Self> {
        while !cursor.0.first()?.is_sign('(') {
            cursor.next();
        }
        let name = |part: &&[Token]| part.first().and_then(Token::name).map(str::to_owned);
        split_at_commas(cursor.parenthesised()?).iter().map(name).collect::<Option<_>>().map(Self::AddKey)
    }

    /// Whether it adds what rows may not fit.
    pub(super) fn constrains(&self) -> bool {
        match self {
            Self::Add { definition, .. } | Self::Define { definition, .. } => {
                definition.constrained || definition.primary
            }
            Self::AddKey(_) => true,
            _ => false,
        }
    }

    /// `what`, not understood.
    pub(super) fn other(tokens: &[Token]) -> Self {
        let word = |token: &Token| match token {
            Token::Word(word) => word.clone(),
            Token::Name(name) => format!("`{name}`"),
            Token::Text(_) => "'..'".to_owned(),
            Token::Sign(sign) => sign.to_string(),
        };
        let words: Vec<String> = tokens.iter().take(12).map(word).collect();
        Self::Other(words.join(" "))
    }
}

/// `IF EXISTS` or `IF NOT EXISTS`.
fn skip_if_exists(cursor: &mut Cursor<'_>) -> bool {
    cursor.skip_all(&["IF", "EXISTS"]) || cursor.skip_all(&["IF", "NOT", "EXISTS"])
}

/// The word that says what kind of index or constraint a part of `ADD (..)` is, after `CONSTRAINT [name]`. None for a column and for
/// a primary key.
fn unnamed_index(part: &[Token]) -> Option<&Token> {
    let mut cursor = Cursor(part);
    if cursor.skip("CONSTRAINT") && !begins_index(cursor.0) {
        skip_if_exists(&mut cursor);
        cursor.name()?;
    }
    cursor.0.first().filter(|_| begins_index(cursor.0))
}

/// An index or a constraint among the columns of `ADD (..)`. A primary key is none that is passed over.
pub(super) fn begins_index(part: &[Token]) -> bool {
    let kinds = ["INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"];
    part.first().is_some_and(|token| kinds.iter().any(|kind| token.is(kind)))
}
