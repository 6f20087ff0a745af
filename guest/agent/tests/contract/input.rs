//! Input and terminals.

use tonic::Code;

use crate::host::contract::{Pty, ResizeRequest, StartRequest, WriteInputRequest, exited::End};
use crate::host::{Agent, Finished, Host, command, is_root, shell};

async fn write(host: &Host, process_id: &str, offset: u64, data: &[u8], eof: bool) -> Result<u64, tonic::Status> {
    let request =
        WriteInputRequest { process_id: process_id.into(), offset: Some(offset), data: data.to_vec().into(), eof };
    host.processes.clone().write_input(request).await.map(|reply| reply.into_inner().accepted)
}

fn with_stdin(request: StartRequest) -> StartRequest {
    StartRequest { stdin: true, ..request }
}

fn on_terminal(script: &str) -> StartRequest {
    StartRequest { pty: Some(Pty { cols: 90, rows: 30, term: "dumb".into() }), ..shell(script) }
}

#[tokio::test]
async fn input_arrives_once_however_often_it_is_sent_and_ends_with_its_end() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let request = with_stdin(command(&["cat"]));
    let id = request.process_id.clone();
    let mut events = host.start(request).await.unwrap();
    assert_eq!(write(&host, &id, 0, b"hello ", false).await.unwrap(), 6);
    assert_eq!(write(&host, &id, 0, b"hello ", false).await.unwrap(), 6);
    assert_eq!(write(&host, &id, 3, b"lo world", false).await.unwrap(), 11);
    assert_eq!(write(&host, &id, 12, b"!", false).await.unwrap_err().code(), Code::OutOfRange);
    let append = WriteInputRequest { process_id: id.clone(), offset: None, data: b"\n"[..].into(), eof: false };
    assert_eq!(host.processes.write_input(append).await.unwrap().into_inner().accepted, 12);
    for _ in 0..2 {
        assert_eq!(write(&host, &id, 12, b"", true).await.unwrap(), 12);
    }
    let mut finished = Finished::default();
    while let Some(event) = events.message().await.unwrap() {
        finished.take(event);
    }
    assert_eq!((finished.text(), finished.end), ("hello world\n", Some(End::Code(0))));
    assert_eq!(write(&host, &id, 12, b"more", false).await.unwrap_err().code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_process_that_does_not_read_holds_its_writer_back_and_nobody_else() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let request = with_stdin(shell("sleep 1; wc -c"));
    let id = request.process_id.clone();
    let mut events = host.start(request).await.unwrap();
    let data = vec![7; 120_000];
    let (written, other) = tokio::join!(write(&host, &id, 0, &data, true), async {
        agent_answers(&host).await;
    });
    assert_eq!((written.unwrap(), other), (120_000, ()));
    let mut finished = Finished::default();
    while let Some(event) = events.message().await.unwrap() {
        finished.take(event);
    }
    assert_eq!(finished.text().trim(), "120000");
}

async fn agent_answers(host: &Host) {
    let mut host = host.clone();
    assert_eq!(host.shell("echo meanwhile").await.text(), "meanwhile\n");
}

#[tokio::test]
async fn without_stdin_there_is_nothing_to_write_to() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let request = command(&["sleep", "1000"]);
    let id = request.process_id.clone();
    let _events = host.start(request).await.unwrap();
    assert_eq!(write(&host, &id, 0, b"x", false).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(write(&host, "prc-unknown", 0, b"x", false).await.unwrap_err().code(), Code::NotFound);
    let resize = ResizeRequest { process_id: id, cols: 80, rows: 24 };
    assert_eq!(host.processes.resize(resize).await.unwrap_err().code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_terminal_has_its_size_hears_of_a_new_one_and_echoes() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let script = "trap 'stty size' WINCH; stty size; echo $TERM; tty >&2; read line; echo got $line; \
                  until read -r line; do :; done; exit 3";
    let request = on_terminal(script);
    let id = request.process_id.clone();
    let mut events = host.start(request).await.unwrap();
    let mut finished = Finished::default();
    while !finished.text().contains("/dev/pts/") {
        finished.take(events.message().await.unwrap().unwrap());
    }
    assert!(finished.text().starts_with("30 90\r\ndumb\r\n/dev/pts/"), "{:?}", finished.text());
    write(&host, &id, 0, b"typed\n", false).await.unwrap();
    while !finished.text().contains("got typed") {
        finished.take(events.message().await.unwrap().unwrap());
    }
    assert!(finished.text().contains("\ntyped\r\ngot typed\r\n"), "echoed: {:?}", finished.text());
    host.processes.resize(ResizeRequest { process_id: id.clone(), cols: 120, rows: 40 }).await.unwrap();
    while !finished.text().contains("40 120") {
        finished.take(events.message().await.unwrap().unwrap());
    }
    write(&host, &id, 6, b"x\n", false).await.unwrap();
    while let Some(event) = events.message().await.unwrap() {
        finished.take(event);
    }
    assert_eq!((finished.end, finished.stderr.len()), (Some(End::Code(3)), 0));
}

#[tokio::test]
async fn the_last_words_on_a_terminal_are_heard() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    for round in 0..20 {
        let finished = host.run(on_terminal("seq 1 3000; echo the end")).await.unwrap();
        assert!(finished.text().ends_with("3000\r\nthe end\r\n"), "round {round}: {} bytes", finished.stdout.len());
    }
}

#[tokio::test]
async fn the_end_of_a_terminals_input_hangs_it_up_and_a_lost_reader_does_not() {
    if !is_root() {
        return eprintln!("SKIPPED: only root can hang a terminal up");
    }
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let request = on_terminal("trap 'exit 9' HUP; echo up; while :; do sleep 0.05; done");
    let id = request.process_id.clone();
    let mut events = host.start(request).await.unwrap();
    let mut finished = Finished::default();
    while !finished.text().contains("up") {
        finished.take(events.message().await.unwrap().unwrap());
    }
    drop(events);
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let attach = crate::host::contract::AttachRequest { process_id: id.clone(), stdout_offset: 0, stderr_offset: 0 };
    let mut events = host.processes.attach(attach).await.unwrap().into_inner();
    write(&host, &id, 0, b"", true).await.unwrap();
    let mut finished = Finished::default();
    while let Some(event) = events.message().await.unwrap() {
        finished.take(event);
    }
    assert_eq!(finished.end, Some(End::Code(9)));
}
