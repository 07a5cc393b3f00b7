//! The user's option file of MySQL's clients: the group `[client]` of `~/.my.cnf` (MySQL manual, "Using Option Files").

use std::fs;
use std::path::Path;

use super::parse::{Keywords, keyword};

/// The options that say where the server is and how to log in. An error says why the file was passed over; a missing file is
/// none. Options of other kinds and other groups are those of other programs.
pub(super) fn client_options(file: &Path) -> Result<Keywords, String> {
    let Ok(metadata) = fs::metadata(file) else { return Ok(Keywords::new()) };
    if !metadata.is_file() {
        return Ok(Keywords::new());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As the clients: a file that anybody may write is ignored. One that others can read holds no secret.
        if metadata.permissions().mode() & 0o022 != 0 {
            return Err(format!(
                "option file {0} can be written by others and was not used: chmod 600 {0}",
                file.display()
            ));
        }
    }
    let text =
        fs::read_to_string(file).map_err(|error| format!("cannot read option file {}: {error}", file.display()))?;
    let mut options = Keywords::new();
    let mut ours = false;
    for line in text.lines().map(str::trim) {
        if let Some(group) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            ours = matches!(group.0.trim(), "client" | "client-mariadb");
            continue;
        }
        if !ours || line.is_empty() || line.starts_with(['#', ';', '!']) {
            continue;
        }
        if let Some((name, text)) = line.split_once('=')
            && let Some(known) = keyword(name.trim())
        {
            options.insert(known, value(text.trim()));
        }
    }
    Ok(options)
}

/// A value: in quotes or up to a comment, with the escapes of option files.
fn value(text: &str) -> String {
    let quoted = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let text = match quoted {
        Some(inner) => inner,
        None => text.split_once(" #").map_or(text, |(value, _)| value).trim_end(),
    };
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('s') => out.push(' '),
            Some(c @ ('\\' | '"' | '\'')) => out.push(c),
            // Any other backslash stands for itself.
            Some(c) => out.extend(['\\', c]),
            None => out.push('\\'),
        }
    }
    out
}
