use std::fs;

use super::*;

fn parse_with(text: &str, variables: &[(&str, &str)], home: Option<PathBuf>) -> Result<ConnectConfig> {
    ConnectConfig::parse_in(
        text,
        &Surroundings {
            variable: &|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()),
            home,
        },
    )
}

#[test]
fn urls_are_read_part_by_part() {
    for text in [
        "mysql://us%40er:p%3Aw%2F%25@db.example:3307/my%20db?ssl-mode=REQUIRED&connect-timeout=3",
        "mariadb://us%40er:p:w%2F%25@db.example:3307/my%20db?ssl_mode=required&connect_timeout=3",
        "mysql:///?host=db.example&port=3307&user=us@er&password=p:w/%25&database=my db&ssl-mode=Required&connect-timeout=3",
    ] {
        let config = parse_with(text, &[], None).unwrap();
        assert_eq!(config.host, Host::Tcp("db.example".into(), 3307), "{text}");
        assert_eq!(config.user(), "us@er", "{text}");
        assert_eq!(config.database(), Some("my db"), "{text}");
        assert_eq!(config.password, Some(Secret::new("p:w/%")), "{text}");
        assert_eq!(config.ssl_mode, SslMode::Required, "{text}");
        assert_eq!(config.connect_timeout, Duration::from_secs(3), "{text}");
    }
}

#[test]
fn what_the_url_leaves_out_comes_from_the_environment_and_then_from_defaults() {
    let variables = [("MYSQL_HOST", "h"), ("MYSQL_TCP_PORT", "7"), ("MYSQL_PWD", "p"), ("USER", "me")];
    for (text, shown, password) in [
        ("mysql://", "mysql://me@h:7/", "p"),
        ("mysql://v:q@i/e", "mysql://v@i:3306/e", "q"),
        ("mariadb://v@i:8", "mariadb://v@i:8/", "p"),
        ("mysql://v@/d?socket=/run/m.sock", "mysql://v@localhost/d?socket=/run/m.sock", "p"),
    ] {
        let config = parse_with(text, &variables, None).unwrap();
        assert_eq!(config.to_string(), shown);
        assert_eq!(config.password, Some(Secret::new(password)), "{text}");
    }
    let config = parse_with("mysql://u@h", &[], None).unwrap();
    assert_eq!((config.database(), config.ssl_mode, &config.password), (None, SslMode::Preferred, &None));
    let config = config_of_socket("mysql://u@localhost/d", &[("MYSQL_UNIX_PORT", "/run/m.sock")]);
    assert_eq!(config, Host::Tcp("localhost".into(), 3306), "a host in the URL is not overruled");
    let config = config_of_socket("mysql://u@/d", &[("MYSQL_UNIX_PORT", "/run/m.sock")]);
    assert_eq!(config, Host::Unix("/run/m.sock".into()));
}

fn config_of_socket(text: &str, variables: &[(&str, &str)]) -> Host {
    parse_with(text, variables, None).unwrap().host
}

#[test]
fn addresses_are_names_ipv6_and_sockets() {
    for (text, host, shown) in [
        ("mysql://u@[::1]:1/d", Host::Tcp("::1".into(), 1), "[::1]:1"),
        ("mysql://u@[::1]/d", Host::Tcp("::1".into(), 3306), "[::1]:3306"),
        ("mysql://u@localhost/d?socket=%2Frun%2Fm.sock", Host::Unix("/run/m.sock".into()), "/run/m.sock"),
        ("mysql://u@other/d?socket=/run/m.sock", Host::Tcp("other".into(), 3306), "other:3306"),
    ] {
        let config = parse_with(text, &[], None).unwrap();
        assert_eq!((&config.host, config.host_port().as_str()), (&host, shown), "{text}");
    }
}

#[test]
fn a_root_certificate_is_used_when_it_is_named() {
    for (text, mode) in [
        ("mysql://u@h/d?ssl-ca=/ca.pem", SslMode::VerifyCa),
        ("mysql://u@h/d?ssl-ca=system&ssl-mode=verify_identity", SslMode::VerifyIdentity),
        ("mysql://u@h/d?ssl-ca=/ca.pem&ssl-mode=REQUIRED", SslMode::Required),
    ] {
        assert_eq!(parse_with(text, &[], None).unwrap().ssl_mode, mode, "{text}");
    }
}

#[test]
fn what_is_wrong_is_named_and_the_password_is_not() {
    for (text, expected) in [
        ("postgres://u:hunter2@h/d", "must be a URL such as mysql://"),
        ("hunter2", "must be a URL"),
        ("mysql://u:hunter2%@h/d", "two hexadecimal digits"),
        ("mysql://u:hunter2@h:70000/d", "port '70000'"),
        ("mysql://u:hunter2@h/d?ssl-mode=on", "ssl-mode 'ON'"),
        ("mysql://u:hunter2@h/d?colour=red", "'colour' is not supported"),
        ("mysql://u:hunter2@h/d?ssl-mode", "has no '='"),
        ("mysql://u:hunter2@[::1/d", "closing ']'"),
        ("mysql://u:hunter2@a,b/d", "several hosts"),
        ("mysql://u:hunter2@h/d?ssl-cert=/c", "without ssl-key"),
        ("mysql://u:hunter2@h/d?ssl-mode=VERIFY_CA", "need the root certificate"),
        ("mysql://u:hunter2@/d?socket=/s&ssl-mode=REQUIRED", "on the Unix socket /s"),
        ("mysql://h/d", "no user"),
    ] {
        let error = parse_with(text, &[], None).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(expected), "{text}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let config = parse_with("mysql://u:hunter2@h/d", &[], None).unwrap();
    assert!(!format!("{config} {config:?}").contains("hunter2"));
}

#[cfg(unix)]
#[test]
fn the_option_file_is_used_last_and_only_when_nobody_else_may_write_it() {
    use std::os::unix::fs::PermissionsExt;
    let home = std::env::temp_dir().join(format!("calve-option-file-{}", std::process::id()));
    fs::create_dir_all(&home).unwrap();
    let file = home.join(".my.cnf");
    let text = "[mysqld]\npassword=no\n# a comment\n[client]\nuser = u\npassword=\"p \\\"w\\\\\"\nport=9 # mine\nprompt=x\n[mysql]\nuser=no\n";
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let read = |text: &str, variables: &[(&str, &str)]| parse_with(text, variables, Some(home.clone())).unwrap();
    let config = read("mysql://h/d", &[]);
    assert_eq!((config.to_string().as_str(), config.password), ("mysql://u@h:9/d", Some(Secret::new("p \"w\\"))));
    let config = read("mysql://v@h:1/d", &[("MYSQL_PWD", "env")]);
    assert_eq!((config.to_string().as_str(), config.password), ("mysql://v@h:1/d", Some(Secret::new("env"))));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let config = read("mysql://v@h/d", &[]);
    assert_eq!(config.password, None);
    assert!(config.password_note.unwrap().contains("chmod 600"));
    fs::remove_dir_all(home).unwrap();
}
