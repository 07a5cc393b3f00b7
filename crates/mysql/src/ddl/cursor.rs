//! Tokens read from left to right.

use super::token::Token;

/// What is still to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [Token]);

impl<'a> Cursor<'a> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn next(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Passes over the keyword if it is next.
    pub(super) fn skip(&mut self, keyword: &str) -> bool {
        let found = self.0.first().is_some_and(|token| token.is(keyword));
        if found {
            self.next();
        }
        found
    }

    /// Passes over these keywords if they are next, all of them.
    pub(super) fn skip_all(&mut self, keywords: &[&str]) -> bool {
        let found = self.0.len() >= keywords.len() && self.0.iter().zip(keywords).all(|(token, word)| token.is(word));
        if found {
            self.0 = self.0.get(keywords.len()..).unwrap_or_default();
        }
        found
    }

    pub(super) fn skip_sign(&mut self, sign: char) -> bool {
        let found = self.0.first().is_some_and(|token| token.is_sign(sign));
        if found {
            self.next();
        }
        found
    }

    /// A name, in quotes or not.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        self.next()?.name()
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        match self.next()? {
            Token::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        match self.next()? {
            Token::Word(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// What stands in the parentheses that begin here. None where none begin, or they have no end.
    pub(super) fn parenthesised(&mut self) -> Option<&'a [Token]> {
        if !self.skip_sign('(') {
            return None;
        }
        let mut depth = 1_usize;
        let end = self.0.iter().position(|token| {
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        let (inside, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        Some(inside)
    }
}

/// The parts between commas that stand in no parentheses.
pub(super) fn split_at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    tokens
        .split(|token| {
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && token.is_sign(',')
        })
        .collect()
}
