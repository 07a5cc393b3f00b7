//! Connection URLs, taken apart into the options of MySQL's clients.

use std::collections::BTreeMap;

use calve_core::Result;

use super::config_error;

/// Values by keyword; only keywords that are known.
pub(super) type Keywords = BTreeMap<&'static str, String>;

/// The keywords that a variable stands for when the URL leaves them out.
pub(super) const VARIABLES: &[(&str, &str)] =
    &[("socket", "MYSQL_UNIX_PORT"), ("port", "MYSQL_TCP_PORT"), ("host", "MYSQL_HOST"), ("password", "MYSQL_PWD")];
/// The keywords that are understood, as parameters of the URL and in option files.
const KNOWN: &[&str] = &[
    "user",
    "password",
    "host",
    "port",
    "socket",
    "database",
    "ssl-mode",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "connect-timeout",
];
const SCHEMES: [&str; 2] = ["mysql", "mariadb"];

/// The keyword as it is known, dashes and underscores alike as in option files.
pub(super) fn keyword(name: &str) -> Option<&'static str> {
    let name = name.replace('_', "-");
    KNOWN.iter().find(|known| **known == name).copied()
}

/// Takes a URL apart: its scheme and its keywords. No message repeats the text: it may hold a password.
pub(super) fn parse(text: &str) -> Result<(&'static str, Keywords)> {
    let text = text.trim();
    for scheme in SCHEMES {
        if let Some(rest) = text.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")) {
            return Ok((scheme, url(rest)?));
        }
    }
    Err(config_error(
        "the source's address must be a URL such as mysql://user@host:3306/database, or begin with mariadb://",
    ))
}

/// `[user[:password]@][host[:port]][/database][?keyword=value&..]`, after the scheme.
fn url(rest: &str) -> Result<Keywords> {
    let mut found = Keywords::new();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    // A '@' in a password should be written %40; taking the last one reads it right where it was not.
    let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    let (host, port) = host_and_port(address)?;
    let parts = [
        ("user", Some(user)),
        ("password", password),
        ("host", Some(host)),
        ("port", Some(port)),
        ("database", Some(database)),
    ];
    for (keyword, text) in parts {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            found.insert(keyword, decode(text)?);
        }
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| config_error("a parameter after '?' in the source's URL has no '=': write keyword=value"))?;
        let name = decode(name)?;
        let known = keyword(&name)
            .ok_or_else(|| config_error(format!("the connection parameter '{name}' is not supported: leave it out")))?;
        found.insert(known, decode(value)?);
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
    if address.contains(',') {
        return Err(config_error("the source's URL names several hosts: name the one to read the log of"));
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
