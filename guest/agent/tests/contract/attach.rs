//! Streams that are taken up again, and processes that have nobody to read them.

use tonic::{Code, Streaming};

use crate::host::contract::{
    AttachRequest, ListProcessesRequest, Lost, ProcessEvent, SignalRequest, exited::End, output::Stream,
    process_event::Event,
};
use crate::host::{Agent, Finished, Host, command, shell, until};

async fn attach(host: &Host, process_id: &str, stdout_offset: u64) -> Result<Streaming<ProcessEvent>, tonic::Status> {
    let request = AttachRequest { process_id: process_id.into(), stdout_offset, stderr_offset: 0 };
    host.processes.clone().attach(request).await.map(tonic::Response::into_inner)
}

/// Output of stdout from an offset on, to the end, and what was lost of it.
async fn rest(mut events: Streaming<ProcessEvent>, mut at: u64) -> (Vec<u8>, Vec<Lost>, Option<End>) {
    let (mut output, mut lost, mut end) = (Vec::new(), Vec::new(), None);
    while let Some(event) = events.message().await.unwrap() {
        match event.event.unwrap() {
            Event::Output(part) if part.stream() == Stream::Stdout => {
                assert_eq!(part.offset, at, "a gap or a repeat");
                at += part.data.len() as u64;
                output.extend_from_slice(&part.data);
            }
            Event::Lost(part) => {
                assert_eq!((part.stream(), part.offset), (Stream::Stdout, at));
                at += part.size;
                lost.push(part);
            }
            Event::Exited(exited) => end = exited.end,
            _ => {}
        }
    }
    (output, lost, end)
}

#[tokio::test]
async fn a_stream_is_taken_up_again_over_another_connection_without_gap_or_repeat() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let request = shell("i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); sleep 0.002; done; exit 5");
    let process_id = request.process_id.clone();
    let mut events = host.start(request).await.unwrap();
    let mut first = Finished::default();
    while first.stdout.len() < 300 {
        first.take(events.message().await.unwrap().unwrap());
    }
    // A new host takes the port; the old one's session is gone, and the process prints for nobody for a while.
    let host = agent.open().await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let at = first.stdout.len() as u64;
    let (output, lost, end) = rest(attach(&host, &process_id, at).await.unwrap(), at).await;
    let expected: String = (0..400).map(|i| format!("line {i}\n")).collect();
    assert_eq!(String::from_utf8([first.stdout, output].concat()).unwrap(), expected);
    assert_eq!((lost.len(), end), (0, Some(End::Code(5))));

    // It has ended; its output and its end are still there, and what it never printed is refused.
    until("it is kept", || async { attach(&host, &process_id, 0).await.is_ok() }).await;
    let (output, _, end) = rest(attach(&host, &process_id, 0).await.unwrap(), 0).await;
    assert_eq!((String::from_utf8(output).unwrap(), end), (expected, Some(End::Code(5))));
    assert_eq!(attach(&host, &process_id, 99_999).await.unwrap_err().code(), Code::OutOfRange);
    assert_eq!(attach(&host, "prc-unknown", 0).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn what_nobody_read_is_dropped_from_its_beginning_and_counted() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let request = shell("head -c 5000000 /dev/zero; printf the-end");
    let process_id = request.process_id.clone();
    drop(host.start(request).await.unwrap());
    let (output, lost, end) = rest(attach(&host, &process_id, 0).await.unwrap(), 0).await;
    assert_eq!(end, Some(End::Code(0)));
    let lost: u64 = lost.iter().map(|lost| lost.size).sum();
    assert_eq!(lost + output.len() as u64, 5_000_007);
    assert!(output.ends_with(b"the-end"));
}

#[tokio::test]
async fn a_reader_that_hangs_does_not_hold_up_one_that_reads() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let request = shell("head -c 20000000 /dev/zero");
    let process_id = request.process_id.clone();
    let hanging = host.start(request).await.unwrap();
    let (output, lost, end) = rest(attach(&host, &process_id, 0).await.unwrap(), 0).await;
    assert_eq!((output.len(), lost.len(), end), (20_000_000, 0, Some(End::Code(0))));
    let (output, lost, end) = rest(hanging, 0).await;
    assert!(!lost.is_empty(), "it is told what it did not get");
    assert_eq!(output.len() as u64 + lost.iter().map(|lost| lost.size).sum::<u64>(), 20_000_000);
    assert_eq!(end, Some(End::Code(0)));
}

#[tokio::test]
async fn the_agent_stays_small_however_many_processes_print_for_nobody() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let mut ids = Vec::new();
    for _ in 0..40 {
        let request = shell("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exec sleep 1000");
        ids.push(request.process_id.clone());
        drop(host.start(request).await.unwrap());
    }
    let printed = || async {
        let listed = host.processes.clone().list(ListProcessesRequest::default()).await.unwrap().into_inner().processes;
        listed.iter().all(|process| process.stdout_bytes == 3_000_000 && process.stderr_bytes == 3_000_000)
    };
    until("all have printed", printed).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let kibibytes: u64 = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(kibibytes < 40_000, "the agent holds {kibibytes} KiB");
    for process_id in ids {
        host.processes.signal(SignalRequest { process_id, signal: 9, tree: true }).await.unwrap();
    }
}

#[tokio::test]
async fn processes_that_print_without_end_for_nobody_leave_the_agent_answering() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    for _ in 0..4 {
        drop(host.start(shell("yes & exec yes")).await.unwrap());
        // What children print after their leader is read all the same.
        drop(host.start(shell("(yes; yes) & exit 0")).await.unwrap());
    }
    for _ in 0..5 {
        let answer = tokio::time::timeout(std::time::Duration::from_secs(5), host.shell("echo here")).await;
        assert_eq!(answer.expect("the agent answers").text(), "here\n");
    }
}

#[tokio::test]
async fn a_command_whose_time_has_passed_is_killed_with_its_tree_whoever_reads() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let mut request = shell("setsid sleep 1000 & echo up; sleep 1000");
    request.timeout_ms = 100;
    let process_id = request.process_id.clone();
    drop(host.start(request).await.unwrap());
    let mut events = attach(&host, &process_id, 0).await.unwrap();
    let mut finished = Finished::default();
    while let Some(event) = events.message().await.unwrap() {
        finished.take(event);
    }
    assert_eq!((finished.text(), finished.end, finished.timed_out), ("up\n", Some(End::Signal(9)), true));
    assert!(!agent.has_cgroup(&process_id) || until_gone(&agent, &process_id).await);

    let mut in_time = command(&["true"]);
    in_time.timeout_ms = 10_000;
    let finished = host.run(in_time).await.unwrap();
    assert_eq!((finished.end, finished.timed_out), (Some(End::Code(0)), false));
}

async fn until_gone(agent: &Agent, process_id: &str) -> bool {
    until("its cgroup is gone", || async { !agent.has_cgroup(process_id) }).await;
    true
}

#[tokio::test]
async fn the_ended_are_listed_when_asked_for_with_how_they_ended() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let mut request = shell("echo abc; exit 4");
    request.cwd = b"/usr"[..].into();
    let process_id = request.process_id.clone();
    host.run(request).await.unwrap();
    let listed = |ended| {
        let mut processes = host.processes.clone();
        async move { processes.list(ListProcessesRequest { ended }).await.unwrap().into_inner().processes }
    };
    assert!(listed(false).await.is_empty());
    let all = listed(true).await;
    assert_eq!(all.len(), 1);
    assert_eq!((&all[0].process_id, &all[0].cwd[..], all[0].stdout_bytes), (&process_id, &b"/usr"[..], 4));
    assert_eq!(all[0].exited.as_ref().unwrap().end, Some(End::Code(4)));
    assert!(all[0].started_ns > 1_700_000_000_000_000_000);
}
