//! Sessions on the link.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::host::contract::{HelloRequest, ListProcessesRequest};
use crate::host::link::{DATA, SYNC, carry, find_synced, header, random_session, synchronise};
use crate::host::{Agent, Host, shell};

const LIMIT: Duration = Duration::from_secs(10);

async fn says_hello(host: &mut Host) -> bool {
    matches!(timeout(LIMIT, host.machine.hello(HelloRequest {})).await, Ok(Ok(_)))
}

#[tokio::test]
async fn a_connection_takes_the_place_of_the_one_before() {
    let agent = Agent::start().await;
    let mut first = agent.open().await;
    assert!(says_hello(&mut first).await);
    let mut second = agent.open().await;
    assert!(says_hello(&mut second).await);
    assert!(first.machine.hello(HelloRequest {}).await.is_err());
}

#[tokio::test]
async fn a_second_sync_ends_the_session_but_no_process() {
    let agent = Agent::start().await;
    let mut port = UnixStream::connect(agent.directory.join("control")).await.unwrap();
    let old = synchronise(&mut port).await.unwrap();
    // A request whose answer nobody waits for, cut in the middle of a frame.
    port.write_all(&header(DATA, old, 1000)).await.unwrap();
    port.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let new = synchronise(&mut port).await.unwrap();
    assert_ne!(old, new);
    let mut host = Host::over(carry(port, new)).await;
    assert!(says_hello(&mut host).await);

    let request = shell("sleep 1000");
    let id = request.process_id.clone();
    let _events = host.start(request).await.unwrap();
    let mut next = agent.open().await;
    let listed = next.processes.list(ListProcessesRequest::default()).await.unwrap().into_inner().processes;
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].process_id, listed[0].leader_alive), (&id, true));
}

#[tokio::test]
async fn garbage_before_the_sync_is_skipped() {
    let agent = Agent::start().await;
    let half_a_frame = [&header(DATA, 1, 32_000)[..], &[b'S'; 100]].concat();
    for garbage in [&b"SPLKSPLKSP"[..], &[0xff; 5000], &header(SYNC, 1, 0)[..19], &half_a_frame] {
        let mut port = UnixStream::connect(agent.directory.join("control")).await.unwrap();
        port.write_all(garbage).await.unwrap();
        let session = synchronise(&mut port).await.unwrap();
        let mut host = Host::over(carry(port, session)).await;
        assert!(says_hello(&mut host).await, "after {} bytes", garbage.len());
    }
}

#[tokio::test]
async fn a_repeated_sync_is_answered_again_and_changes_nothing() {
    let agent = Agent::start().await;
    let mut port = UnixStream::connect(agent.directory.join("control")).await.unwrap();
    let session = random_session();
    for _ in 0..3 {
        port.write_all(&header(SYNC, session, 0)).await.unwrap();
        timeout(LIMIT, find_synced(&mut port, session)).await.unwrap().unwrap();
    }
    let mut host = Host::over(carry(port, session)).await;
    assert!(says_hello(&mut host).await);
}

#[tokio::test]
async fn data_of_another_session_is_dropped() {
    let agent = Agent::start().await;
    let mut port = UnixStream::connect(agent.directory.join("control")).await.unwrap();
    let session = synchronise(&mut port).await.unwrap();
    port.write_all(&[&header(DATA, !session, 5)[..], b"stale"].concat()).await.unwrap();
    let mut host = Host::over(carry(port, session)).await;
    assert!(says_hello(&mut host).await);
}

#[tokio::test]
async fn more_than_the_windows_allow_ends_the_session_and_nothing_else() {
    let agent = Agent::start().await;
    let mut port = UnixStream::connect(agent.directory.join("control")).await.unwrap();
    let session = synchronise(&mut port).await.unwrap();
    let junk = [&header(DATA, session, 32_768)[..], &[b'x'; 32_768]].concat();
    for _ in 0..200 {
        port.write_all(&junk).await.unwrap();
    }
    let session = synchronise(&mut port).await.unwrap();
    let mut host = Host::over(carry(port, session)).await;
    assert!(says_hello(&mut host).await);
}

#[tokio::test]
async fn both_ports_serve_at_the_same_time() {
    let agent = Agent::start().await;
    let mut control = agent.open().await;
    let mut traffic = Host::open(&agent.directory.join("traffic")).await;
    assert!(says_hello(&mut control).await);
    assert!(says_hello(&mut traffic).await);
    assert!(says_hello(&mut control).await);
}
