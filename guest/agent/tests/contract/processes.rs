//! Output, exit and signals of processes.

use tonic::Code;

use crate::host::contract::{
    ListProcessesRequest, ProcessStatus, SignalRequest, StartRequest, exited::End, process_event::Event,
};
use crate::host::{Agent, Finished, Host, command, shell, until};

async fn list(host: &Host) -> Vec<ProcessStatus> {
    host.processes.clone().list(ListProcessesRequest::default()).await.unwrap().into_inner().processes
}

#[tokio::test]
async fn an_exit_is_told_as_the_kernel_told_it() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    for code in [0, 1, 7, 126, 127, 255] {
        assert_eq!(host.shell(&format!("exit {code}")).await.end, Some(End::Code(code)));
    }
    for signal in [2, 6, 9, 11, 15] {
        assert_eq!(host.shell(&format!("kill -{signal} $$")).await.end, Some(End::Signal(signal)));
    }
}

#[tokio::test]
async fn many_at_once_each_get_their_own_exit_code() {
    let agent = Agent::start().await;
    let host = agent.open().await;
    let runs = (0..60u32).map(|code| {
        let mut host = host.clone();
        tokio::spawn(async move { (code, host.shell(&format!("(true &); echo {code}; exit {code}")).await) })
    });
    for run in runs.collect::<Vec<_>>() {
        let (code, finished) = run.await.unwrap();
        assert_eq!((finished.end, finished.text()), (Some(End::Code(code)), format!("{code}\n").as_str()));
    }
}

#[tokio::test]
async fn the_two_streams_stay_apart_and_stdin_is_empty() {
    let agent = Agent::start().await;
    let finished = agent.open().await.shell("cat; echo out; echo err >&2; printf '\\377\\000'").await;
    assert_eq!(finished.stdout, b"out\n\xff\0");
    assert_eq!(finished.stderr, b"err\n");
}

#[tokio::test]
async fn ten_megabytes_arrive_whole() {
    let agent = Agent::start().await;
    let finished = agent.open().await.shell("seq 1 1400000; echo the last line").await;
    let mut expected: String = (1..=1_400_000).map(|number| format!("{number}\n")).collect();
    expected.push_str("the last line\n");
    assert!(finished.stdout.len() > 10_000_000);
    assert!(finished.text() == expected, "{} bytes differ from {}", finished.stdout.len(), expected.len());
    assert_eq!(finished.end, Some(End::Code(0)));
}

#[tokio::test]
async fn a_slow_reader_holds_the_process_back_and_not_the_agent() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let mut events = host.start(shell("head -c 30000000 /dev/zero; echo end >&2")).await.unwrap();
    let mut other = host.shell("echo meanwhile").await;
    assert_eq!(other.text(), "meanwhile\n");
    other = host.shell(&format!("grep VmRSS /proc/{}/status", agent.pid())).await;
    let kibibytes: u64 = other.text().split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kibibytes < 30_000, "the agent holds {kibibytes} KiB");
    assert_eq!(list(&host).await.len(), 1, "the process waits for its reader");
    let mut finished = Finished::default();
    while let Some(event) = events.message().await.unwrap() {
        finished.take(event);
    }
    assert_eq!((finished.stdout.len(), &finished.stderr[..]), (30_000_000, &b"end\n"[..]));
}

#[tokio::test]
async fn a_process_whose_reader_has_left_runs_to_its_end() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let mark = agent.directory.join("mark");
    let script = format!("head -c 5000000 /dev/zero; touch {}", mark.display());
    drop(host.start(shell(&script)).await.unwrap());
    until("the process has written everything", || async { mark.exists() }).await;
}

#[tokio::test]
async fn exit_does_not_wait_for_children_left_behind() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let request = shell("(while :; do echo later; sleep 0.01; done) & sleep 0.05; echo done; exit 3");
    let process_id = request.process_id.clone();
    let finished = host.run(request).await.unwrap();
    assert_eq!(finished.end, Some(End::Code(3)));
    assert!(finished.text().contains("done\n"));

    let listed = list(&host).await;
    assert_eq!((&listed[0].process_id, listed[0].leader_alive), (&process_id, false));
    assert!(listed[0].live_processes >= 1, "it lives on, also after it has written to the pipe");
    let ended = host.processes.signal(SignalRequest { process_id: process_id.clone(), signal: 15, tree: false }).await;
    assert_eq!(ended.unwrap_err().code(), Code::NotFound);

    host.processes.signal(SignalRequest { process_id: process_id.clone(), signal: 9, tree: true }).await.unwrap();
    assert!(list(&host).await.is_empty());
    until("its cgroup is gone", || async { !agent.has_cgroup(&process_id) }).await;
}

#[tokio::test]
async fn a_label_is_given_back_and_has_a_limit() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let request = StartRequest { label: b"whose it is"[..].into(), ..shell("sleep 1000") };
    let process_id = request.process_id.clone();
    let _events = host.start(request).await.unwrap();
    assert_eq!(list(&host).await[0].label, b"whose it is"[..]);
    host.processes.signal(SignalRequest { process_id, signal: 9, tree: false }).await.unwrap();

    let too_long = StartRequest { label: vec![b'x'; 4097].into(), ..shell("true") };
    assert_eq!(host.run(too_long).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn killing_the_tree_leaves_nothing() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let request = shell("for i in 1 2 3 4 5; do setsid sh -c 'sleep 1000 & sleep 1000' & done; echo up; wait");
    let process_id = request.process_id.clone();
    let mut events = host.start(request).await.unwrap();
    let mut seen_up = false;
    while !seen_up {
        seen_up = matches!(events.message().await.unwrap().unwrap().event, Some(Event::Output(_)));
    }
    until("all have started", || async { list(&host).await[0].live_processes >= 16 }).await;
    host.processes.signal(SignalRequest { process_id: process_id.clone(), signal: 9, tree: true }).await.unwrap();
    let procs = std::fs::read_to_string(agent.user_cgroup().join(&process_id).join("cgroup.procs")).unwrap_or_default();
    assert_eq!(procs, "", "confirmed before the reply");
    assert!(list(&host).await.is_empty());
    let last = loop {
        match events.message().await.unwrap() {
            Some(event) => {
                if let Some(Event::Exited(exited)) = event.event {
                    break exited.end;
                }
            }
            None => panic!("no exit"),
        }
    };
    assert_eq!(last, Some(End::Signal(9)));
}

#[tokio::test]
async fn signals_reach_the_leader_or_the_whole_tree() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let script = "trap 'echo leader; exit 4' TERM; (trap 'echo child; exit' TERM; echo up; while :; do sleep 0.01; done) & \
                  while :; do sleep 0.01; done";
    for (tree, both) in [(false, false), (true, true)] {
        let request = shell(script);
        let process_id = request.process_id.clone();
        let mut events = host.start(request).await.unwrap();
        let mut finished = Finished::default();
        while finished.stdout.is_empty() {
            finished.take(events.message().await.unwrap().unwrap());
        }
        host.processes.signal(SignalRequest { process_id: process_id.clone(), signal: 15, tree }).await.unwrap();
        while let Some(event) = events.message().await.unwrap() {
            finished.take(event);
        }
        assert!(finished.text().contains("leader") && finished.end == Some(End::Code(4)));
        if !both {
            assert!(!finished.text().contains("child"));
            host.processes.signal(SignalRequest { process_id, signal: 9, tree: true }).await.unwrap();
        }
        until("it is gone", || async { list(&host).await.is_empty() }).await;
    }
}

#[tokio::test]
async fn bad_signals_and_strangers_are_refused() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let unknown = SignalRequest { process_id: "prc-unknown".into(), signal: 9, tree: false };
    assert_eq!(host.processes.signal(unknown).await.unwrap_err().code(), Code::NotFound);
    let request = command(&["sleep", "1000"]);
    let process_id = request.process_id.clone();
    let _events = host.start(request).await.unwrap();
    for signal in [65, u32::MAX] {
        let bad = SignalRequest { process_id: process_id.clone(), signal, tree: false };
        assert_eq!(host.processes.signal(bad).await.unwrap_err().code(), Code::InvalidArgument);
    }
    let tree = SignalRequest { process_id, signal: 9, tree: true };
    assert_eq!(host.processes.signal(tree).await.unwrap_err().code(), Code::FailedPrecondition, "no cgroups here");
}
