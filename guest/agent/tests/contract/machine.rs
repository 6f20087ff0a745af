//! Who the machine is, and whether user code runs.

use std::time::Duration;

use tonic::Code;

use crate::host::contract::{
    AssumeIdentityRequest, FreezeRequest, HelloRequest, ListProcessesRequest, SignalRequest, ThawRequest,
    process_event::Event,
};
use crate::host::{Agent, Host, is_root, shell};

pub fn identity() -> AssumeIdentityRequest {
    AssumeIdentityRequest {
        sandbox_id: "sbx_1".into(),
        life_id: "life_1".into(),
        generation: 7,
        hostname: "box-1".into(),
        machine_id: "0123456789abcdef0123456789abcdef".into(),
        wall_clock_ns: 1_700_000_000_000_000_000,
        entropy: vec![3; 64].into(),
        fresh: false,
        trust: b""[..].into(),
    }
}

async fn is_frozen(host: &mut Host) -> bool {
    host.machine.hello(HelloRequest {}).await.unwrap().into_inner().frozen
}

#[tokio::test]
async fn hello_names_the_agent_and_its_contracts() {
    let agent = Agent::start().await;
    let hello = agent.open().await.machine.hello(HelloRequest {}).await.unwrap().into_inner();
    assert_eq!(hello.agent_version, env!("CARGO_PKG_VERSION"));
    assert_eq!(hello.contracts, ["v1"]);
    assert!(hello.uptime_ns > 0 && !hello.frozen);
}

#[tokio::test]
async fn identity_is_told_as_it_was_taken() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let wanted = identity();
    let taken = host.machine.assume_identity(wanted.clone()).await.unwrap().into_inner();
    assert_eq!(taken.generation, wanted.generation);
    assert_eq!((taken.hostname, taken.machine_id), (wanted.hostname, wanted.machine_id));
    assert_eq!(taken.wall_clock_ns, wanted.wall_clock_ns);
    assert_eq!(taken.entropy_credited, is_root());
}

#[tokio::test]
async fn identity_without_entropy_is_refused() {
    let agent = Agent::start().await;
    let bad = AssumeIdentityRequest { entropy: vec![3; 31].into(), ..identity() };
    let refused = agent.open().await.machine.assume_identity(bad).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn without_cgroups_freeze_is_refused() {
    let agent = Agent::start().await;
    let refused = agent.open().await.machine.freeze(FreezeRequest { timeout_ms: 100 }).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn freeze_stops_user_code_and_thaw_lets_it_go_on() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let mut events = host.start(shell("i=0; while :; do i=$((i+1)); echo $i; sleep 0.002; done")).await.unwrap();
    let (mut text, mut seen) = (Vec::new(), 0);
    while seen < 5 {
        if let Some(Event::Output(output)) = events.message().await.unwrap().unwrap().event {
            text.extend_from_slice(&output.data);
            seen += 1;
        }
    }
    let frozen = host.machine.freeze(FreezeRequest { timeout_ms: 5000 }).await.unwrap().into_inner();
    assert!(frozen.processes >= 1);
    assert!(is_frozen(&mut host).await);
    let cpu_while_frozen = || std::fs::read_to_string(agent.user_cgroup().join("cpu.stat")).unwrap();
    let before = cpu_while_frozen();
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(before, cpu_while_frozen());

    let refused = host.start(shell("true")).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::FailedPrecondition, "frozen"));

    host.machine.thaw(ThawRequest { wall_clock_ns: 0 }).await.unwrap();
    host.machine.thaw(ThawRequest { wall_clock_ns: 0 }).await.unwrap();
    assert!(!is_frozen(&mut host).await);
    while seen < 50 {
        if let Some(Event::Output(output)) = events.message().await.unwrap().unwrap().event {
            text.extend_from_slice(&output.data);
            seen += 1;
        }
    }
    let lines = String::from_utf8(text).unwrap();
    let numbers: Vec<u32> = lines.lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers.iter().zip(1..).all(|(found, wanted)| *found == wanted), "{numbers:?}");
}

#[tokio::test]
async fn freeze_that_takes_too_long_is_undone() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let _busy = host.start(shell("(while :; do :; done) & while :; do :; done")).await.unwrap();
    // Whether nothing at all is enough time is the kernel's mood; but a refusal must always leave things running.
    for _ in 0..20 {
        match host.machine.freeze(FreezeRequest { timeout_ms: 0 }).await {
            Ok(_) => drop(host.machine.thaw(ThawRequest { wall_clock_ns: 0 }).await.unwrap()),
            Err(refused) => assert_eq!(refused.code(), Code::DeadlineExceeded),
        }
        assert!(!is_frozen(&mut host).await);
    }
}

#[tokio::test]
async fn a_frozen_tree_can_be_killed() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let request = shell("sleep 1000 & sleep 1000");
    let process_id = request.process_id.clone();
    let mut events = host.start(request).await.unwrap();
    host.machine.freeze(FreezeRequest { timeout_ms: 5000 }).await.unwrap();
    host.processes.signal(SignalRequest { process_id, signal: 9, tree: true }).await.unwrap();
    while events.message().await.unwrap().is_some() {}
    host.machine.thaw(ThawRequest { wall_clock_ns: 0 }).await.unwrap();
    let listed = host.processes.list(ListProcessesRequest::default()).await.unwrap().into_inner();
    assert!(listed.processes.is_empty());
}
