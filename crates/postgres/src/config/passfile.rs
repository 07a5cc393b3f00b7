//! The password file of libpq: `hostname:port:database:username:password` a line, `*` for any, `\:` and `\\` escaped
//! (Postgres manual, "The Password File").

use std::fs;
use std::path::Path;

use super::Host;
use calve_core::Secret;

/// The first password that fits one of the hosts. An error says why the file was passed over; a missing file is no error.
pub(super) fn look_up(
    file: &Path,
    hosts: &[(Host, u16)],
    database: &str,
    user: &str,
) -> Result<Option<Secret>, String> {
    let metadata = match fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => metadata,
        Ok(_) => return Err(format!("password file {} is not a plain file and was not used", file.display())),
        Err(_) => return Ok(None),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(format!(
                "password file {0} can be read by others and was not used: chmod 600 {0}",
                file.display()
            ));
        }
    }
    #[cfg(not(unix))]
    let _ = metadata;
    let text =
        fs::read_to_string(file).map_err(|error| format!("cannot read password file {}: {error}", file.display()))?;
    Ok(hosts.iter().find_map(|(host, port)| {
        // A Unix socket in the default directory goes by the name of localhost.
        let host = match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(directory) if directory == Path::new(super::SOCKET_DIRECTORY) => "localhost".to_owned(),
            Host::Unix(directory) => directory.display().to_string(),
        };
        let wanted = [host.as_str(), &port.to_string(), database, user];
        text.lines().filter(|line| !line.starts_with('#')).find_map(|line| matching(line, wanted))
    }))
}

/// The password of a line whose first four fields fit.
fn matching(line: &str, wanted: [&str; 4]) -> Option<Secret> {
    let mut rest = line;
    for wanted in wanted {
        let (field, after) = field(rest)?;
        if field != "*" && unescape(field) != wanted {
            return None;
        }
        rest = after;
    }
    Some(Secret::new(unescape(rest)))
}

/// The field up to the next bare colon.
fn field(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ':' => return Some((text.get(..at)?, text.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or('\\') } else { c });
    }
    out
}
