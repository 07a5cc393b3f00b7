//! Connection URLs and keyword strings, taken apart into libpq's keywords.

use std::collections::BTreeMap;

use calve_core::Result;

use super::config_error;

/// Values by keyword; only keywords that are known.
pub(super) type Keywords = BTreeMap<&'static str, String>;

/// The keywords that are understood and the variable that each comes from when the text leaves it out.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("host", "PGHOST"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("application_name", "PGAPPNAME"),
    ("options", "PGOPTIONS"),
];
/// Keywords that no variable stands for.
const PLAIN: &[&str] = &["keepalives", "keepalives_idle", "target_session_attrs", "fallback_application_name"];
/// Keywords of libpq that change nothing here.
const IGNORED: &[&str] = &[
    "client_encoding",
    "gssencmode",
    "keepalives_count",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "sslcompression",
    "sslsni",
    "tcp_user_timeout",
];

/// Takes a URL or a keyword string apart. No message repeats the text: it may hold a password.
pub(super) fn parse(text: &str) -> Result<Keywords> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://")) {
        url(rest)
    } else if text.contains("://") {
        Err(config_error("the source's address must begin with postgres:// or postgresql://"))
    } else if text.contains('=') {
        keywords(text)
    } else {
        Err(config_error(
            "the source is neither a URL such as postgres://user@host/database nor keywords such as 'host=.. dbname=..'",
        ))
    }
}

fn put(into: &mut Keywords, keyword: &str, value: String) -> Result<()> {
    if IGNORED.contains(&keyword) {
        return Ok(());
    }
    // JDBC's spelling, which libpq takes in URLs as well.
    let (keyword, value) =
        if keyword == "ssl" && value == "true" { ("sslmode", "require".into()) } else { (keyword, value) };
    let known = VARIABLES.iter().map(|(keyword, _)| keyword).chain(PLAIN).find(|known| **known == keyword);
    match known {
        Some(known) => {
            into.insert(known, value);
            Ok(())
        }
        None => Err(config_error(format!("the connection parameter '{keyword}' is not supported: leave it out"))),
    }
}

/// `[user[:password]@][host[:port][,..]][/database][?keyword=value&..]`, after the scheme.
fn url(rest: &str) -> Result<Keywords> {
    let mut found = Keywords::new();
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
    let (authority, database) = rest.split_once('/').map_or((rest, ""), |(authority, database)| (authority, database));
    // A '@' in a password should be written %40; taking the last one reads it right where it was not.
    let (login, addresses) =
        authority.rsplit_once('@').map_or(("", authority), |(login, addresses)| (login, addresses));
    let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    if !user.is_empty() {
        put(&mut found, "user", decode(user)?)?;
    }
    if let Some(password) = password {
        put(&mut found, "password", decode(password)?)?;
    }
    if !addresses.is_empty() {
        let (mut hosts, mut ports) = (Vec::new(), Vec::new());
        for address in addresses.split(',') {
            let (host, port) = host_and_port(address)?;
            hosts.push(decode(host)?);
            ports.push(port);
        }
        if hosts.iter().any(|host| !host.is_empty()) {
            put(&mut found, "host", hosts.join(","))?;
        }
        if ports.iter().any(|port| !port.is_empty()) {
            put(&mut found, "port", ports.join(","))?;
        }
    }
    if !database.is_empty() {
        put(&mut found, "dbname", decode(database)?)?;
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (keyword, value) = pair
            .split_once('=')
            .ok_or_else(|| config_error("a parameter after '?' in the source's URL has no '=': write keyword=value"))?;
        put(&mut found, &decode(keyword)?, decode(value)?)?;
    }
    Ok(found)
}

fn host_and_port(address: &str) -> Result<(&str, &str)> {
    if let Some(rest) = address.strip_prefix('[') {
        let (host, rest) = rest
            .split_once(']')
            .ok_or_else(|| config_error("an IPv6 address in the source's URL lacks its closing ']'"))?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, port)),
            None if rest.is_empty() => Ok((host, "")),
            None => Err(config_error("in the source's URL something other than ':port' follows an IPv6 address")),
        };
    }
    Ok(address.rsplit_once(':').unwrap_or((address, "")))
}

/// Percent-decoding. The result must be UTF-8 without NUL.
fn decode(text: &str) -> Result<String> {
    let error = || {
        config_error(
            "the source's URL holds a '%' that two hexadecimal digits do not follow, or bytes that are no text: \
             write special characters of user, password and database as %XX ('%' itself as %25)",
        )
    };
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
            let (high, low) = digit().zip(digit()).ok_or_else(error)?;
            out.push(high << 4 | low);
        } else {
            out.push(byte);
        }
    }
    if out.contains(&0) {
        return Err(error());
    }
    String::from_utf8(out).map_err(|_| error())
}

/// `keyword = value ..`; a value may stand in single quotes, with `\'` and `\\` inside.
fn keywords(text: &str) -> Result<Keywords> {
    let mut found = Keywords::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (keyword, after) = rest
            .split_once('=')
            .ok_or_else(|| config_error("a word in the source's connection string has no '=': write keyword=value"))?;
        let keyword = keyword.trim();
        if keyword.is_empty() || keyword.contains(char::is_whitespace) {
            return Err(config_error("a word in the source's connection string has no '=': write keyword=value"));
        }
        let (value, after) = value(after.trim_start())?;
        put(&mut found, keyword, value)?;
        rest = after.trim_start();
    }
    Ok(found)
}

/// The value at the start of `text`, and what follows it.
fn value(text: &str) -> Result<(String, &str)> {
    let (quoted, body) = text.strip_prefix('\'').map_or((false, text), |body| (true, body));
    let mut out = String::new();
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, escaped)) => out.push(escaped),
                None => break,
            },
            '\'' if quoted => return Ok((out, body.get(at + 1..).unwrap_or_default())),
            c if !quoted && c.is_whitespace() => return Ok((out, body.get(at..).unwrap_or_default())),
            c => out.push(c),
        }
    }
    if quoted {
        return Err(config_error("a quoted value in the source's connection string lacks its closing quote"));
    }
    Ok((out, ""))
}
