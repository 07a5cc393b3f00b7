use std::sync::Arc;

use calve_core::{ErrorKind, Lsn, Position, TableName};
use calve_engine::{Event, Observer, TableState};

use super::*;
use crate::progress::{Progress, State};
use crate::test_dir::TestDir;

fn orders() -> TableName {
    TableName::new("public", "orders")
}

async fn with_server<F: Future>(name: &str, ask: impl FnOnce(Client, Arc<Progress>) -> F) {
    let dir = TestDir::new(name);
    let path = dir.path().join("control.sock");
    // What a killed process leaves behind.
    drop(std::os::unix::net::UnixListener::bind(path.as_path()).unwrap());
    assert!(Client::connect(&path).await.unwrap().is_none());

    let progress = Arc::new(Progress::new([orders()]));
    let server = Server::bind(&path).unwrap();
    let (engine, _control) = calve_engine::control();
    let client = Client::connect(&path).await.unwrap().unwrap();
    tokio::select! {
        () = server.serve(Arc::clone(&progress), engine) => unreachable!("serves for ever"),
        _ = ask(client, Arc::clone(&progress)) => {}
    }
    drop(server);
    assert!(!path.exists());
}

#[tokio::test]
async fn status_is_answered() {
    with_server("status", async |mut client, progress| {
        progress.event(&Event::State { table: orders(), state: TableState::Streaming });
        let status = client.status().await.unwrap();
        assert_eq!(status.process, std::process::id());
        assert_eq!(status.tables[0].state, State::Streaming);
        // One connection takes more than one question.
        assert!(client.status().await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn a_reload_is_followed_to_its_end() {
    with_server("reload", async |mut client, progress| {
        client.reload(vec![orders()]).await.unwrap();
        let load = async {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            progress.event(&Event::State { table: orders(), state: TableState::Loading });
            progress.event(&Event::LoadProgress { table: orders(), rows: 5, estimated: Some(10) });
            tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
            progress.event(&Event::Loaded { table: orders(), position: Position::Postgres(Lsn(1)), rows: 10 });
        };
        let answers = async {
            let mut answers = Vec::new();
            loop {
                match client.next_answer().await.unwrap() {
                    Answer::Done => return answers,
                    answer => answers.push(answer),
                }
            }
        };
        let ((), answers) = tokio::join!(load, answers);
        assert!(matches!(answers.first(), Some(Answer::Loading { rows: 5, estimated: Some(10), .. })), "{answers:?}");
        assert!(matches!(answers.last(), Some(Answer::Published { .. })), "{answers:?}");
    })
    .await;
}

#[tokio::test]
async fn a_table_of_nobody_is_refused() {
    with_server("refused", async |mut client, _| {
        client.reload(vec![TableName::new("public", "other")]).await.unwrap();
        let answer = client.next_answer().await.unwrap();
        assert!(matches!(&answer, Answer::Refused { why } if why.contains("public.other")), "{answer:?}");
    })
    .await;
}

#[tokio::test]
async fn a_path_too_long_for_the_kernel_is_reached_through_its_directory() {
    let dir = TestDir::new("long");
    let deep = dir.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let path = deep.join("control.sock");
    let server = Server::bind(&path).unwrap();
    assert!(path.exists());
    assert!(Client::connect(&path).await.unwrap().is_some());
    drop(server);
    let error = Client::connect(&deep.join("no/control.sock")).await.map(|client| client.is_some());
    assert!(matches!(error, Ok(false)) || error.is_err_and(|error| error.kind() == ErrorKind::Config));
}
