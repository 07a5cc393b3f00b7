//! Logging in, and what is said where that fails.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use calve_core::{ChangeSource, ErrorKind};
use calve_postgres::{ConnectConfig, PostgresSettings, PostgresSource};

use calve_testkit::servers::{Options, Postgres, SUPERUSER, Stop};

use crate::database::{Database, server};

async fn refused_by(url: &str) -> (ErrorKind, String) {
    let config = ConnectConfig::parse(url).unwrap();
    let sql = config.connect_sql().await.err().unwrap_or_else(|| panic!("{url} was accepted"));
    let mut source = PostgresSource::new(PostgresSettings::new(config, "x"));
    let replication = source.log_state().await.expect_err(url);
    assert_eq!(sql.to_string(), replication.to_string(), "SQL and replication say the same");
    assert!(!sql.to_string().contains('\n') && !sql.to_string().contains("hunter2"), "{sql}");
    (sql.kind(), sql.to_string())
}

#[tokio::test]
async fn failures_are_told_apart_and_say_what_to_do() {
    let url = server(17);
    let (_, rest) = url.split_once('@').unwrap();
    let (address, _) = rest.split_once('/').unwrap();
    let (host, _) = address.rsplit_once(':').unwrap();
    for (url, kind, expected) in [
        (format!("postgres://u:hunter2@{host}:1/d"), ErrorKind::Retry, "cannot reach Postgres"),
        ("postgres://u:hunter2@host.invalid/d".into(), ErrorKind::Retry, "cannot reach Postgres"),
        (format!("postgres://postgres:hunter2@{address}/postgres"), ErrorKind::Config, "check the password"),
        (format!("postgres://nobody:hunter2@{address}/postgres"), ErrorKind::Config, "check the password"),
        (url.rsplit_once('/').unwrap().0.to_owned() + "/nowhere", ErrorKind::Config, "check the database name"),
        (format!("{url}?sslmode=verify-full"), ErrorKind::Config, "sslrootcert"),
        (format!("{url}?sslmode=verify-ca&sslrootcert=/nonexistent"), ErrorKind::Config, "sslrootcert /nonexistent"),
    ] {
        let (found, message) = refused_by(&url).await;
        assert!(found == kind && message.contains(expected), "{url}: {found:?} {message}");
    }
    let no_password = format!("postgres://postgres@{address}/postgres?passfile=/nonexistent");
    let (_, message) = refused_by(&no_password).await;
    assert!(message.contains("none was given"), "{message}");
}

#[tokio::test]
async fn every_sslmode_logs_in_where_it_should() {
    for version in crate::database::VERSIONS {
        let url = server(version);
        for mode in ["disable", "allow", "prefer", "require"] {
            let config = ConnectConfig::parse(&format!("{url}?sslmode={mode}")).unwrap();
            let client = config.connect_sql().await.unwrap();
            let query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
            let encrypted: bool = client.query_one(query, &[]).await.unwrap().get(0);
            assert_eq!(encrypted, matches!(mode, "prefer" | "require"), "sslmode={mode}");
            let mut source = PostgresSource::new(PostgresSettings::new(config, "never_made"));
            source.log_state().await.unwrap();
        }
        let bound = ConnectConfig::parse(&format!("{url}?sslmode=require&channel_binding=require")).unwrap();
        bound.connect_sql().await.unwrap();
        PostgresSource::new(PostgresSettings::new(bound, "never_made")).log_state().await.unwrap();
        let unbound = ConnectConfig::parse(&format!("{url}?sslmode=disable&channel_binding=require")).unwrap();
        assert_eq!(unbound.connect_sql().await.unwrap_err().kind(), ErrorKind::Config);
        let error = PostgresSource::new(PostgresSettings::new(unbound, "never_made")).log_state().await.unwrap_err();
        assert!(error.to_string().contains("channel_binding"), "{error}");
    }
}

#[tokio::test]
async fn a_role_that_may_not_replicate_is_told_so() {
    let db = Database::create(17).await;
    let role = format!("plain_{}", std::process::id());
    db.run(&format!("CREATE ROLE {role} LOGIN PASSWORD 'p'")).await;
    let url = server(17);
    let (_, address) = url.split_once('@').unwrap();
    let config = ConnectConfig::parse(&format!("postgres://{role}:p@{address}")).unwrap();
    config.connect_sql().await.unwrap();
    let error = PostgresSource::new(PostgresSettings::new(config, "x")).log_state().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("REPLICATION"), "{error}");
    db.run(&format!("DROP ROLE {role}")).await;
    db.drop().await;
}

#[tokio::test]
async fn certificates_are_verified_as_far_as_the_mode_asks() {
    let options = Options::default().hba("hostnossl all tls_only all reject").hba("hostssl all plain_only all reject");
    let server = Postgres::start(17, &options).unwrap();
    let (host, port) = (server.host().unwrap(), server.port().unwrap());
    let ca = server.ca_file().unwrap().display();
    let url = |user: &str, host: &str, query: &str| format!("postgres://{user}:{user}@{host}:{port}/postgres?{query}");
    let connect = async |url: String| ConnectConfig::parse(&url).unwrap().connect_sql().await;
    // The certificate is for localhost.
    for (host, query) in [
        ("localhost", format!("sslmode=verify-full&sslrootcert={ca}")),
        (host, format!("sslmode=verify-ca&sslrootcert={ca}")),
        (host, format!("sslmode=require&sslrootcert={ca}")),
        (host, format!("sslmode=prefer&sslrootcert={ca}")),
    ] {
        let url = url(SUPERUSER, host, &query);
        connect(url.clone()).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        let source = PostgresSettings::new(ConnectConfig::parse(&url).unwrap(), "x");
        PostgresSource::new(source).log_state().await.unwrap();
    }
    // Any other authority will do: here one whose certificate is not the signer.
    let other = std::env::temp_dir().join(format!("calve-other-ca-{}.crt", std::process::id()));
    std::fs::write(&other, OTHER_AUTHORITY).unwrap();
    for (host, query, expected) in [
        (host, format!("sslmode=verify-full&sslrootcert={ca}"), "not valid for name"),
        ("localhost", format!("sslmode=verify-full&sslrootcert={}", other.display()), "TLS with Postgres at localhost"),
        (host, format!("sslmode=verify-ca&sslrootcert={}", other.display()), "TLS with Postgres at"),
        (host, format!("sslmode=require&sslrootcert={}", other.display()), "TLS with Postgres at"),
    ] {
        let error = connect(url(SUPERUSER, host, &query)).await.expect_err(&query);
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(expected), "{query}: {error}");
    }
    std::fs::remove_file(other).unwrap();

    let admin = connect(url(SUPERUSER, host, "")).await.unwrap();
    admin
        .batch_execute(
            "CREATE ROLE tls_only LOGIN PASSWORD 'tls_only'; CREATE ROLE plain_only LOGIN PASSWORD 'plain_only'",
        )
        .await
        .unwrap();
    for (user, mode, accepted) in [
        ("tls_only", "disable", false),
        ("tls_only", "allow", true),
        ("tls_only", "prefer", true),
        ("plain_only", "require", false),
        ("plain_only", "prefer", true),
        ("plain_only", "allow", true),
    ] {
        match connect(url(user, host, &format!("sslmode={mode}"))).await {
            Ok(_) => assert!(accepted, "{user} got in with sslmode={mode}"),
            Err(error) => {
                assert!(!accepted && error.to_string().contains("pg_hba.conf"), "{user}, sslmode={mode}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn every_kind_of_login_that_libpq_knows_without_more_libraries() {
    let options = Options::default()
        .hba("host all of_md5 all md5")
        .hba("host all of_clear all password")
        .hba("host all of_trust all trust");
    let server = Postgres::start(17, &options).unwrap();
    let (host, port) = (server.host().unwrap().to_owned(), server.port().unwrap());
    let data = server.data_dir().unwrap();
    let authority = server.ca_file().unwrap().parent().unwrap();
    std::fs::copy(authority.join("ca.crt"), data.join("clients.crt")).unwrap();
    server
        .psql(
            "postgres",
            "SET password_encryption = 'md5'; CREATE ROLE of_md5 LOGIN REPLICATION PASSWORD 'secret'; RESET password_encryption; \
             CREATE ROLE of_clear LOGIN REPLICATION PASSWORD 'secret'; CREATE ROLE of_trust LOGIN REPLICATION; \
             CREATE ROLE of_cert LOGIN REPLICATION",
        )
        .unwrap();
    // Such a rule is refused while the server trusts no authority.
    let rules = data.join("pg_hba.conf");
    let others = std::fs::read_to_string(&rules).unwrap();
    std::fs::write(&rules, format!("hostssl all of_cert all cert\n{others}")).unwrap();
    server.restart(Stop::Fast, &Options::default().set("ssl_ca_file", "clients.crt")).unwrap();

    let home = std::env::temp_dir().join(format!("calve-login-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    let (certificate, key) = client_certificate(authority, &home, "of_cert");
    let with_certificate = format!("?sslcert={}&sslkey={}", certificate.display(), key.display());
    for (login, query) in [
        ("of_md5:secret", ""),
        ("of_md5:secret", "?sslmode=disable"),
        ("of_clear:secret", ""),
        ("of_trust", ""),
        ("of_cert", with_certificate.as_str()),
    ] {
        let url = format!("postgres://{login}@{host}:{port}/postgres{query}");
        let config = ConnectConfig::parse(&url).unwrap();
        config.connect_sql().await.unwrap_or_else(|error| panic!("{login}: {error}"));
        let mut source = PostgresSource::new(PostgresSettings::new(config, "x"));
        source.log_state().await.unwrap_or_else(|error| panic!("{login}: {error}"));
    }
    let refused = ["of_md5:hunter2", "of_clear:hunter2", "of_cert"];
    for login in refused {
        let (kind, message) = refused_by(&format!("postgres://{login}@{host}:{port}/postgres?sslmode=require")).await;
        assert_eq!(kind, ErrorKind::Config, "{login}: {message}");
    }

    // The certificate just made is of X.509 version 1; a server may have such a one as well.
    for (made, served) in [(&certificate, "v1.crt"), (&key, "v1.key")] {
        let copy = data.join(served);
        std::fs::write(&copy, std::fs::read(made).unwrap()).unwrap();
        let owner = std::fs::metadata(data.join("pg_hba.conf")).unwrap();
        std::os::unix::fs::chown(&copy, Some(owner.uid()), Some(owner.gid())).unwrap();
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o600)).unwrap();
    }
    let options = Options::default().set("ssl_cert_file", "v1.crt").set("ssl_key_file", "v1.key");
    server.restart(Stop::Fast, &options).unwrap();
    for user in ["of_trust", SUPERUSER] {
        let url = format!("postgres://{user}:{user}@{host}:{port}/postgres?sslmode=require");
        let config = ConnectConfig::parse(&url).unwrap();
        config.connect_sql().await.unwrap();
        PostgresSource::new(PostgresSettings::new(config, "x")).log_state().await.unwrap();
    }
    std::fs::remove_dir_all(home).unwrap();
}

/// A certificate for a user, signed by the authority that the server trusts, and its key.
fn client_certificate(authority: &Path, home: &Path, user: &str) -> (PathBuf, PathBuf) {
    let (request, certificate, key) = (home.join("request"), home.join("client.crt"), home.join("client.key"));
    let openssl = |arguments: &[&str], paths: &[(&str, &Path)]| {
        let mut command = Command::new("openssl");
        command.args(arguments);
        for (option, path) in paths {
            command.arg(option).arg(path);
        }
        let output = command.output().expect("openssl makes the certificate");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let subject = format!("/CN={user}");
    let new_key =
        ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", &subject];
    openssl(&new_key, &[("-keyout", &key), ("-out", &request)]);
    let (ca, ca_key) = (authority.join("ca.crt"), authority.join("ca.key"));
    let sign = ["x509", "-req", "-set_serial", "77", "-days", "2"];
    openssl(&sign, &[("-in", &request), ("-CA", &ca), ("-CAkey", &ca_key), ("-out", &certificate)]);
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    (certificate, key)
}

/// A certificate authority of nobody.
const OTHER_AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBeDCCAR+gAwIBAgIUFHm98S0Y8fb6WicFsXOhF/8eSHEwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGbm9ib2R5MCAXDTI2MTEyOTE5MjM1NloYDzIxMjYxMTA1MTky
MzU2WjARMQ8wDQYDVQQDDAZub2JvZHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQJGwW2ibBNZrDzE/oLBPJV1R8UXaVbeQeGdrGNHC2fyi32r9V6srUOVSG52btv
FnNTFoZg3N3g7HE/pDgSNzZlo1MwUTAdBgNVHQ4EFgQUObSPllX6xR2knDwVvosz
6M07IUQwHwYDVR0jBBgwFoAUObSPllX6xR2knDwVvosz6M07IUQwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBH1mJr0rnK2scEJg04UO4iGZTIf4Yw
M1AJVrO/lTz09AIgKZsRtk/mFfNFEp16qF7NtgZLFNuHUft/AwIWHxgtJG4=
-----END CERTIFICATE-----
";
