//! YAML as a tree that remembers its lines.
//!
//! Deserialising straight into a struct stops at the first mistake and forgets where each value stood; the tree keeps both
//! the line of every value and the text as it was written, so that all problems of a file are reported at once.

use granit_parser::{Event, Parser, ScalarStyle, Span};

use super::problem::{Origin, Problem};

/// Nesting that no sensible configuration reaches; deeper input is refused before it can exhaust the stack.
const MAX_DEPTH: usize = 16;

/// A value and the line it begins on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Text as written, quotes and escapes resolved. None for an empty value and `~`.
    Scalar(Option<String>),
    /// The word `null`, which is a value to some options.
    Null,
    Sequence(Vec<Node>),
    Mapping(Vec<(Key, Node)>),
}

/// The key of a mapping's entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) line: usize,
    pub(super) name: String,
}

/// Reads one document. An empty one is an empty mapping.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let mut reader = Reader { parser: Parser::new_from_str(text) };
    let node = reader.document()?;
    Ok(node.unwrap_or(Node { line: 1, value: Value::Mapping(Vec::new()) }))
}

struct Reader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn event(&mut self) -> Result<Option<(Event<'a>, Span)>, Problem> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(problem(error.marker().line(), format!("not YAML: {}", error.info()))),
        }
    }

    fn document(&mut self) -> Result<Option<Node>, Problem> {
        let mut found = None;
        while let Some((event, span)) = self.event()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
                other if found.is_none() => found = Some(self.node(other, span, 0)?),
                _ => {
                    return Err(problem(
                        span.start.line(),
                        "only one YAML document is read; remove the '---' before this",
                    ));
                }
            }
        }
        Ok(found)
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Problem> {
        let line = span.start.line();
        if depth > MAX_DEPTH {
            return Err(problem(line, format!("nested more than {MAX_DEPTH} deep")));
        }
        let value = match event {
            Event::Scalar(text, style, ..) => match text.as_ref() {
                "" | "~" if style == ScalarStyle::Plain => Value::Scalar(None),
                "null" if style == ScalarStyle::Plain => Value::Null,
                _ => Value::Scalar(Some(text.into_owned())),
            },
            Event::SequenceStart(..) => Value::Sequence(self.sequence(depth)?),
            Event::MappingStart(..) => Value::Mapping(self.mapping(depth)?),
            Event::Alias(_) => return Err(problem(line, "YAML aliases are not supported; write the value out")),
            _ => return Err(problem(line, "expected a value")),
        };
        Ok(Node { line, value })
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Node>, Problem> {
        let mut items = Vec::new();
        loop {
            match self.inside()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Vec<(Key, Node)>, Problem> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        loop {
            let key = match self.inside()? {
                (Event::MappingEnd, _) => return Ok(entries),
                (Event::Scalar(name, ..), span) => Key { line: span.start.line(), name: name.into_owned() },
                (_, span) => return Err(problem(span.start.line(), "a key must be plain text")),
            };
            if let Some((first, _)) = entries.iter().find(|(other, _)| other.name == key.name) {
                return Err(problem(key.line, format!("'{}' was already given on line {}", key.name, first.line)));
            }
            let (event, span) = self.inside()?;
            entries.push((key, self.node(event, span, depth + 1)?));
        }
    }

    /// The next event where the input cannot end yet.
    fn inside(&mut self) -> Result<(Event<'a>, Span), Problem> {
        self.event()?.ok_or_else(|| problem(0, "not YAML: ends too early"))
    }
}

fn problem(line: usize, what: impl Into<String>) -> Problem {
    Problem::new(Origin::Line(line), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(line: usize, text: &str) -> Node {
        Node { line, value: Value::Scalar(Some(text.to_owned())) }
    }

    #[test]
    fn a_document_keeps_its_lines_and_its_text() {
        let node = parse("# head\nname: shop\ntables:\n  - public.*\n  - 'a: b'\nretries: 007\nnone: ~\nword: null\n")
            .unwrap();
        let Value::Mapping(entries) = node.value else { panic!("not a mapping") };
        let keys: Vec<_> = entries.iter().map(|(key, _)| (key.line, key.name.as_str())).collect();
        assert_eq!(keys, [(2, "name"), (3, "tables"), (6, "retries"), (7, "none"), (8, "word")]);
        assert_eq!(entries[0].1, scalar(2, "shop"));
        assert_eq!(entries[1].1.value, Value::Sequence(vec![scalar(4, "public.*"), scalar(5, "a: b")]));
        assert_eq!(entries[2].1, scalar(6, "007"));
        assert_eq!(entries[3].1.value, Value::Scalar(None));
        assert_eq!(entries[4].1.value, Value::Null);
    }

    #[test]
    fn what_is_not_one_plain_document_is_refused_with_its_line() {
        let deep = format!("{}1", "- ".repeat(40));
        for (text, line, part) in [
            ("a: 1\nb: [1, 2\n", None, "not YAML"),
            ("a: 1\na: 2\n", Some(2), "already given on line 1"),
            ("a: 1\n---\nb: 2\n", Some(3), "only one"),
            ("a: &x 1\nb: *x\n", Some(2), "aliases"),
            ("? [a]\n: 1\n", Some(1), "plain text"),
            (deep.as_str(), Some(1), "deep"),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(problem.what.contains(part), "{text:?}: {problem:?}");
            if let Some(line) = line {
                assert_eq!(problem.origin, Origin::Line(line), "{text:?}: {problem:?}");
            }
        }
    }

    #[test]
    fn an_empty_file_is_an_empty_mapping() {
        for text in ["", "\n# nothing\n"] {
            assert_eq!(parse(text).unwrap().value, Value::Mapping(Vec::new()), "{text:?}");
        }
    }
}
