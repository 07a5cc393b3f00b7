//! `${NAME}` and `${NAME:-default}` in values of the file, so that secrets need not stand in it.
//!
//! Done on values after the file is parsed: whatever a variable holds, it cannot change the file's structure.

/// Replaces every reference by the variable's value. `$${` stands for a literal `${`.
///
/// An empty variable counts as unset when a default is given, as in a shell. The error says which variable is missing or
/// what is malformed, never a value.
pub(super) fn interpolate(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, reference) = rest.split_at(at);
        if let Some(literal) = before.strip_suffix('$') {
            out.push_str(literal);
            out.push_str("${");
            rest = &reference[2..];
            continue;
        }
        out.push_str(before);
        let end = reference.find('}').ok_or("'${' has no closing '}'; write $${ for a literal ${")?;
        out.push_str(&resolve(&reference[2..end], variable)?);
        rest = &reference[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn resolve(reference: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !plain || name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return Err(format!("'{name}' is not the name of an environment variable"));
    }
    match (variable(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            Err(format!("the environment variable {name} is not set; set it, or write ${{{name}:-default}}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let variable = |name: &str| match name {
            "USER" => Some("ann".to_owned()),
            "EMPTY" => Some(String::new()),
            "DOLLAR" => Some("${USER}".to_owned()),
            _ => None,
        };
        match (interpolate(text, &variable), expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{text}"),
            (Err(got), Err(part)) => assert!(got.contains(part), "{text}: {got}"),
            (got, expected) => panic!("{text}: expected {expected:?}, got {got:?}"),
        }
    }

    #[test]
    fn references_are_replaced_once() {
        check("postgres://${USER}:x@h/${DB:-shop}", Ok("postgres://ann:x@h/shop"));
        check("${EMPTY}", Ok(""));
        check("${EMPTY:-e}", Ok("e"));
        check("${NONE:-}", Ok(""));
        check("${DOLLAR}", Ok("${USER}"));
        check("$${USER} costs $5", Ok("${USER} costs $5"));
        check("plain", Ok("plain"));
    }

    #[test]
    fn what_cannot_be_replaced_is_named() {
        check("${NONE}", Err("NONE is not set"));
        check("${USER", Err("closing"));
        check("${A B}", Err("'A B'"));
        check("${}", Err("''"));
        check("${9}", Err("'9'"));
    }
}
