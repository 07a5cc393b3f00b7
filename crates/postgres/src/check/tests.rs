//! The check against real servers: a ready one, a hostile one, and one that is mended by what the check says.

use calve_testkit::servers::{Options, Postgres};

use super::*;
use crate::config::ConnectConfig;
use calve_core::Severity;

fn tables(names: &[&str]) -> Vec<TableName> {
    names.iter().map(|name| TableName::new("public", *name)).collect()
}

fn settings(url: &str) -> PostgresSettings {
    PostgresSettings::new(ConnectConfig::parse(url).unwrap(), "checked")
}

fn errors(findings: &[Finding]) -> Vec<&Finding> {
    findings.iter().filter(|finding| finding.severity == Severity::Error).collect()
}

fn assert_says(findings: &[Finding], severity: Severity, what: &str, remedy: &str) {
    let found = |finding: &&Finding| {
        finding.severity == severity && finding.what.contains(what) && finding.remedy.contains(remedy)
    };
    assert!(findings.iter().any(|finding| found(&finding)), "no {severity:?} '{what}' / '{remedy}' in {findings:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_check_says_to_paste_makes_a_weak_user_ready() {
    let database = Postgres::shared(17).unwrap().create_database("mend").unwrap();
    let server = database.server();
    let weak = format!("weak_{}", database.name());
    let owner = format!("Owner {}", database.name());
    let admin = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap().connect_sql().await.unwrap();
    let run = async |sql: &str| admin.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    run(&format!(
        "CREATE ROLE {weak} LOGIN PASSWORD 'weak'; CREATE ROLE \"{owner}\"; REVOKE ALL ON SCHEMA public FROM public; \
         CREATE TABLE public.a (id int PRIMARY KEY); CREATE TABLE public.\"B\" (id int PRIMARY KEY); \
         ALTER TABLE public.a OWNER TO \"{owner}\"; ALTER TABLE public.\"B\" OWNER TO \"{owner}\""
    ))
    .await;
    let url =
        format!("postgres://{weak}:weak@{}:{}/{}", server.host().unwrap(), server.port().unwrap(), database.name());
    let settings = settings(&url);
    let tables = tables(&["a", "B"]);

    let findings = check(&settings, &tables).await.unwrap();
    assert_says(&findings, Severity::Error, "may not replicate", &format!("ALTER ROLE \"{weak}\" REPLICATION"));
    assert_says(&findings, Severity::Error, "public.a, public.B", "GRANT USAGE ON SCHEMA \"public\"");
    assert_says(&findings, Severity::Error, "create a publication", "GRANT CREATE ON DATABASE");
    assert_says(&findings, Severity::Error, "owned by Owner", &format!("GRANT \"{owner}\" TO \"{weak}\""));
    assert_eq!(errors(&findings).len(), 2, "{findings:#?}");
    assert!(findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));

    for finding in errors(&findings) {
        run(finding.remedy.split(" (on Amazon").next().unwrap()).await;
    }
    let findings = check(&settings, &tables).await.unwrap();
    assert_eq!(errors(&findings), [] as [&Finding; 0]);

    // And ready means that the publication can be made.
    let mut source = crate::PostgresSource::new(settings.clone());
    calve_core::ChangeSource::follow(&mut source, &tables).await.unwrap();
    let findings = check(&settings, &tables).await.unwrap();
    assert_eq!(errors(&findings), [] as [&Finding; 0]);
    run(&format!("ALTER PUBLICATION {} OWNER TO postgres", settings.publication)).await;
    let findings = check(&settings, &tables).await.unwrap();
    assert_says(&findings, Severity::Error, "may not alter publication", "GRANT \"postgres\" TO");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_server_is_described_in_one_go() {
    let options = Options::default()
        .set("wal_level", "replica")
        .set("max_replication_slots", "1")
        .set("max_wal_senders", "1")
        .set("max_slot_wal_keep_size", "64MB")
        .set("wal_sender_timeout", "2s");
    let server = Postgres::start(18, &options.set("idle_replication_slot_timeout", "60")).unwrap();
    let database = server.create_database("hostile").unwrap();
    let connect = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap();
    let client = connect.connect_sql().await.unwrap();
    client
        .batch_execute(
            "CREATE TABLE public.good (id int PRIMARY KEY, v text); \
             CREATE TABLE public.\"Good\" (id int PRIMARY KEY); CREATE TABLE public.bare (id int); \
             CREATE TABLE public.p (id int PRIMARY KEY) PARTITION BY RANGE (id); \
             CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (0) TO (9); \
             CREATE TABLE public.swap (id int PRIMARY KEY DEFERRABLE)",
        )
        .await
        .unwrap();
    // Last, because from here on every commit waits for a standby that never comes.
    client.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    while client.query_one("SHOW synchronous_standby_names", &[]).await.unwrap().get::<_, &str>(0) != "*" {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let settings = PostgresSettings::new(connect, "checked");
    let tables = tables(&["good", "Good", "bare", "p", "p1", "swap", "nothing"]);
    let findings = check(&settings, &tables).await.unwrap();
    for (severity, what, remedy) in [
        (Severity::Error, "wal_level is replica", "ALTER SYSTEM SET wal_level = 'logical'"),
        (Severity::Error, "0 of 1 replication slots", "max_replication_slots"),
        (Severity::Error, "0 of 1 WAL senders", "max_wal_senders"),
        (Severity::Error, "public.bare has no key", "ADD PRIMARY KEY"),
        (Severity::Error, "public.swap is deferrable", "NOT DEFERRABLE"),
        (Severity::Error, "public.nothing does not exist", "check its name"),
        (Severity::Error, "partition public.p1 are both", "leave public.p1 out"),
        (Severity::Warning, "public.good and public.Good differ in case", "another name"),
        (Severity::Warning, "max_slot_wal_keep_size is 64 MB", "max_slot_wal_keep_size"),
        (Severity::Warning, "wal_sender_timeout is 2000 ms", "wal_sender_timeout"),
        (Severity::Warning, "idle_replication_slot_timeout is 60 s", "idle_replication_slot_timeout"),
        (Severity::Warning, "commits on the server would wait", "synchronous_standby_names"),
    ] {
        assert_says(&findings, severity, what, remedy);
    }
    assert_eq!(findings.len(), 12, "{findings:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_and_publication_of_others_are_looked_at() {
    let database = Postgres::shared(17).unwrap().create_database("others").unwrap();
    let connect = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap();
    let client = connect.connect_sql().await.unwrap();
    let slot = format!("{}_physical", database.name());
    client
        .batch_execute(&format!(
            "CREATE TABLE public.t (id int PRIMARY KEY); CREATE TABLE public.u (id int PRIMARY KEY, v int); \
             CREATE PUBLICATION hand FOR TABLE public.u (id); SELECT pg_create_physical_replication_slot('{slot}')"
        ))
        .await
        .unwrap();
    let settings = PostgresSettings {
        slot: slot.clone(),
        publication: "hand".into(),
        ..PostgresSettings::new(connect, "checked")
    };
    let findings = check(&settings, &tables(&["t"])).await.unwrap();
    assert_says(&findings, Severity::Error, "a physical one", "choose another slot");
    assert_says(&findings, Severity::Error, "hand does not carry table public.t", "ADD TABLE ONLY \"public\".\"t\"");
    let findings = check(&settings, &tables(&["u"])).await.unwrap();
    assert_says(&findings, Severity::Error, "only some rows or columns of table public.u", "column list");
    let absent = PostgresSettings { publication: "absent".into(), manage_publication: false, ..settings };
    let findings = check(&absent, &tables(&["t"])).await.unwrap();
    assert_says(
        &findings,
        Severity::Error,
        "publication absent does not exist",
        "CREATE PUBLICATION \"absent\" FOR TABLE",
    );
    client.batch_execute(&format!("SELECT pg_drop_replication_slot('{slot}')")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_a_session_did_not_take_are_noticed() {
    let database = Postgres::shared(15).unwrap().create_database("session").unwrap();
    // Options come first from the user, so that ours hold: nothing of the session can be undone from there.
    let url = format!("{}?options=-c%20TimeZone%3DAsia/Tokyo", database.url("postgres").unwrap());
    let findings = check(&settings(&url), &[]).await.unwrap();
    assert_eq!(errors(&findings), [] as [&Finding; 0]);
    let client = ConnectConfig::parse(&url).unwrap().connect_sql().await.unwrap();
    client.batch_execute("SET datestyle = German; SET extra_float_digits = 0").await.unwrap();
    let settings = settings(&url);
    let role = rights::Role::read(&client).await.unwrap();
    let findings = server::check(&client, &settings, &role, &Ok(None)).await.unwrap();
    assert_says(&findings, Severity::Error, "DateStyle, extra_float_digits", "Postgres server itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publication_that_sends_generated_columns_is_refused() {
    let database = Postgres::shared(18).unwrap().create_database("generated").unwrap();
    let connect = ConnectConfig::parse(&database.url("postgres").unwrap()).unwrap();
    let client = connect.connect_sql().await.unwrap();
    client
        .batch_execute(
            "CREATE TABLE public.t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id + 1) STORED); \
             CREATE PUBLICATION sends FOR TABLE public.t WITH (publish_generated_columns = stored)",
        )
        .await
        .unwrap();
    let settings = PostgresSettings { publication: "sends".into(), ..PostgresSettings::new(connect, "checked") };
    let findings = check(&settings, &tables(&["t"])).await.unwrap();
    assert_says(&findings, Severity::Error, "sends generated columns", "publish_generated_columns = none");
    assert_says(&findings, Severity::Warning, "left out of the lake", "compute them");
    client.batch_execute("ALTER PUBLICATION sends SET (publish_generated_columns = none)").await.unwrap();
    assert_eq!(errors(&check(&settings, &tables(&["t"])).await.unwrap()), [] as [&Finding; 0]);
}
