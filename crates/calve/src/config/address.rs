//! URLs without the password they may hold, to be stored and shown.

/// The URL without its password, in the login part and among the parameters alike; everything else stays.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match address.split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (address, String::new()),
    };
    // The last '@' ends the login: a password may hold one that should have been escaped.
    let authority = match authority.rsplit_once('@') {
        Some((login, host)) => format!("{}@{host}", login.split(':').next().unwrap_or_default()),
        None => authority.to_owned(),
    };
    let kept: Vec<_> = query.split('&').filter(|pair| !pair.is_empty() && !is_password(pair)).collect();
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    format!("{scheme}://{authority}{path}{query}")
}

fn is_password(pair: &str) -> bool {
    let keyword = pair.split('=').next().unwrap_or_default();
    // An escaped keyword is not worth decoding: what may hide a password is dropped.
    keyword.contains('%') || keyword.to_ascii_lowercase().contains("password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_go_and_the_rest_stays() {
        for (url, expected) in [
            ("postgres://u:p@h:5432/db", "postgres://u@h:5432/db"),
            ("postgres://u:p@x@h/db", "postgres://u@h/db"),
            ("postgres://u@h/db?sslmode=require&password=p", "postgres://u@h/db?sslmode=require"),
            ("postgres://h?sslpassword=p&p%61ssword=x", "postgres://h"),
            ("postgres://h/db", "postgres://h/db"),
            ("postgres://u:p%40@[::1]:5/db", "postgres://u@[::1]:5/db"),
            ("host=h password=p", ""),
        ] {
            assert_eq!(without_password(url), expected, "{url}");
        }
    }
}
