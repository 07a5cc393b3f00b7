use std::fs;
use std::path::PathBuf;

use super::*;

fn parse_with(text: &str, variables: &[(&str, &str)], home: Option<PathBuf>) -> Result<ConnectConfig> {
    ConnectConfig::parse_in(
        text,
        &Surroundings {
            variable: &|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()),
            home,
            default_socket_directory: None,
        },
    )
}

fn tcp(name: &str, port: u16) -> (Host, u16) {
    (Host::Tcp(name.to_owned()), port)
}

#[test]
fn urls_and_keywords_are_read_alike() {
    for text in [
        "postgres://us%40er:p%3Aw%2F%25@db.example:6432/my%20db?sslmode=verify-full&application_name=x",
        "postgresql://us%40er:p:w%2F%25@db.example:6432/my%20db?sslmode=verify-full&application_name=x",
        "host=db.example port=6432 user=us@er password='p:w/%' dbname='my db' sslmode = verify-full application_name=x",
        r"host=db.example port=6432 user=us@er password=p:w/% dbname=my\ db sslmode=verify-full application_name=x",
        "postgres:///my%20db?host=db.example&port=6432&user=us@er&password=p:w/%25&sslmode=verify-full&application_name=x",
    ] {
        let config = parse_with(text, &[], None).unwrap();
        assert_eq!(config.hosts, [tcp("db.example", 6432)], "{text}");
        assert_eq!(config.user, "us@er", "{text}");
        assert_eq!(config.database, "my db", "{text}");
        assert_eq!(config.password, Some(Secret::new("p:w/%")), "{text}");
        assert_eq!(config.ssl_mode, SslMode::VerifyFull, "{text}");
        assert_eq!(config.application_name, "x", "{text}");
    }
}

#[test]
fn what_the_text_leaves_out_comes_from_the_environment_and_then_from_defaults() {
    let variables = [("PGHOST", "h"), ("PGPORT", "7"), ("PGUSER", "u"), ("PGDATABASE", "d"), ("PGPASSWORD", "p")];
    let config = parse_with("postgres://", &variables, None).unwrap();
    assert_eq!(config.to_string(), "postgres://u@h:7/d");
    assert_eq!(config.password, Some(Secret::new("p")));
    let config = parse_with("postgres://v:q@i/e", &variables, None).unwrap();
    assert_eq!(config.to_string(), "postgres://v@i:7/e");
    assert_eq!(config.password, Some(Secret::new("q")));
    let config = parse_with("postgres://", &[("USER", "me")], None).unwrap();
    assert_eq!(config.to_string(), "postgres://me@localhost:5432/me");
    assert_eq!(config.ssl_mode, SslMode::Prefer);
    assert_eq!(config.password, None);
}

#[test]
fn hosts_may_be_several_ipv6_and_sockets() {
    let config = parse_with("postgres://u@[::1]:1,b,%2Frun%2Fpg:3/d", &[], None).unwrap();
    assert_eq!(config.hosts, [tcp("::1", 1), tcp("b", 5432), (Host::Unix("/run/pg".into()), 3)]);
    let config = parse_with("host=a,b port=9 user=u", &[], None).unwrap();
    assert_eq!(config.hosts, [tcp("a", 9), tcp("b", 9)]);
}

#[test]
fn what_is_wrong_is_named_and_the_password_is_not() {
    for (text, expected) in [
        ("mysql://u:hunter2@h/d", "must begin with postgres://"),
        ("hunter2", "neither a URL"),
        ("postgres://u:hunter2%@h/d", "two hexadecimal digits"),
        ("postgres://u:hunter2@h:70000/d", "port '70000'"),
        ("postgres://u:hunter2@h/d?sslmode=on", "sslmode 'on'"),
        ("postgres://u:hunter2@h/d?colour=red", "'colour' is not supported"),
        ("postgres://u:hunter2@h/d?sslmode", "has no '='"),
        ("postgres://u:hunter2@[::1/d", "closing ']'"),
        ("host=h user=u password='hunter2", "closing quote"),
        ("host=a,b port=1,2,3 user=u password=hunter2", "3 ports are given for 2 hosts"),
        ("postgres://u:hunter2@h/d?sslcert=/c", "without sslkey"),
        ("postgres://u:hunter2@h/d?sslrootcert=system", "needs sslmode=verify-full"),
        ("postgres://u:hunter2@h/d?target_session_attrs=standby", "target_session_attrs 'standby'"),
        ("postgres://h/d", "no user"),
    ] {
        let error = parse_with(text, &[], None).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(expected), "{text}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let config = parse_with("postgres://u:hunter2@h/d", &[], None).unwrap();
    assert!(!format!("{config} {config:?}").contains("hunter2"));
}

#[cfg(unix)]
#[test]
fn the_password_file_is_used_last_and_only_when_private() {
    use std::os::unix::fs::PermissionsExt;
    let home = std::env::temp_dir().join(format!("calve-passfile-{}", std::process::id()));
    fs::create_dir_all(&home).unwrap();
    let file = home.join(".pgpass");
    fs::write(&file, "# a comment\nother:*:*:*:no\nh:5432:d\\:b:u:p\\:w\\\\\n*:*:*:any:last\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let password = |text: &str, variables: &[(&str, &str)]| parse_with(text, variables, Some(home.clone())).unwrap();
    assert_eq!(password("postgres://u@h/d:b", &[]).password, Some(Secret::new("p:w\\")));
    assert_eq!(password("postgres://any@z:1/d", &[]).password, Some(Secret::new("last")));
    assert_eq!(password("postgres://nobody@h/d", &[]).password, None);
    assert_eq!(password("postgres://u@h/d:b", &[("PGPASSWORD", "env")]).password, Some(Secret::new("env")));
    assert_eq!(password("postgres://u@h/d:b", &[("PGPASSFILE", "/nonexistent")]).password, None);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let config = password("postgres://u@h/d:b", &[]);
    assert_eq!(config.password, None);
    assert!(config.password_note.unwrap().contains("chmod 600"));
    fs::remove_dir_all(home).unwrap();
}
