//! How a process begins: as whom, with what, and what is said when it can't.

use std::os::unix::fs::PermissionsExt;

use tonic::Code;

use crate::host::contract::{ListProcessesRequest, StartRequest, exited::End};
use crate::host::{Agent, command, is_root, shell, until};

#[tokio::test]
async fn a_command_that_can_not_run_is_an_error_and_not_an_exit_code() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let no_format = agent.directory.join("no-format");
    std::fs::write(&no_format, b"\x00\x01").unwrap();
    std::fs::set_permissions(&no_format, std::fs::Permissions::from_mode(0o755)).unwrap();
    let no_format = no_format.to_str().unwrap();
    let cases = [
        (command(&["no-such-command"]), Code::NotFound, "ENOENT: exec"),
        (command(&["/no/such/command"]), Code::NotFound, "ENOENT: exec"),
        (command(&["/etc/passwd"]), Code::PermissionDenied, "EACCES: exec"),
        (command(&["/tmp"]), Code::PermissionDenied, "EACCES: exec"),
        (command(&[no_format]), Code::InvalidArgument, "ENOEXEC: exec"),
        (command(&[]), Code::InvalidArgument, "argv"),
        (StartRequest { cwd: b"/no/such"[..].into(), ..command(&["true"]) }, Code::FailedPrecondition, "ENOENT: cwd"),
        (
            StartRequest { cwd: b"/etc/passwd"[..].into(), ..command(&["true"]) },
            Code::FailedPrecondition,
            "ENOTDIR: cwd",
        ),
        (StartRequest { user: "no-such-user".into(), ..command(&["true"]) }, Code::InvalidArgument, "no such user"),
        (StartRequest { process_id: "../escape".into(), ..command(&["true"]) }, Code::InvalidArgument, "process_id"),
    ];
    for (request, code, message) in cases {
        let refused = host.start(request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.message().starts_with(message), "{refused}");
    }
    assert!(host.processes.list(ListProcessesRequest::default()).await.unwrap().into_inner().processes.is_empty());
}

#[tokio::test]
async fn an_id_runs_once_but_can_be_used_after_a_failed_start() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let missing = command(&["no-such-command"]);
    for _ in 0..3 {
        assert_eq!(host.start(missing.clone()).await.unwrap_err().code(), Code::NotFound);
        assert!(!agent.has_cgroup(&missing.process_id));
    }
    let request = StartRequest { process_id: missing.process_id, ..command(&["true"]) };
    assert_eq!(host.run(request.clone()).await.unwrap().end, Some(End::Code(0)));
    assert_eq!(host.start(request).await.unwrap_err().code(), Code::AlreadyExists);
}

#[tokio::test]
async fn a_process_starts_clean() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let finished = host.shell("ls /proc/self/fd; grep -hE '^(SigBlk|SigIgn|NoNewPrivs)' /proc/self/status").await;
    let words: Vec<&str> = finished.text().split_whitespace().collect();
    // 3 is the directory that ls reads.
    assert_eq!(words[..4], ["0", "1", "2", "3"], "{words:?}");
    let zero = "0000000000000000";
    // NoNewPrivs would break sudo.
    assert_eq!(words[4..], ["SigBlk:", zero, "SigIgn:", zero, "NoNewPrivs:", "0"], "{words:?}");

    let finished = host.shell("echo $$; cut -d' ' -f6 /proc/$$/stat; cat /proc/$$/oom_score_adj").await;
    let words: Vec<&str> = finished.text().split_whitespace().collect();
    assert_eq!(words, [words[0], words[0], "0"], "a session of its own, and no protection from the OOM killer");
    assert_eq!(words[0], finished.pid.to_string());
}

#[tokio::test]
async fn environment_and_directory_are_what_was_asked_for() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let mut request =
        StartRequest { cwd: b"/usr"[..].into(), ..shell("pwd; echo $A; echo $USER; echo $PATH; echo $HOME") };
    request.env.insert("A".into(), b"a b"[..].into());
    request.env.insert("PATH".into(), b"/bin"[..].into());
    request.env.insert("HOME".into(), b"/elsewhere"[..].into());
    let finished = host.run(request).await.unwrap();
    let lines: Vec<&str> = finished.text().lines().collect();
    assert_eq!((lines[0], lines[1], lines[3], lines[4]), ("/usr", "a b", "/bin", "/elsewhere"));
    assert!(!lines[2].is_empty());
}

#[tokio::test]
async fn a_process_runs_as_the_user_asked_for() {
    if !is_root() {
        return eprintln!("SKIPPED: only root can become another user");
    }
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let script = "id -un; id -u; id -g; id -G; echo $USER $LOGNAME $HOME; cat /etc/shadow";
    for user in ["nobody", "65534"] {
        let finished = host.run(StartRequest { user: user.into(), ..shell(script) }).await.unwrap();
        let lines: Vec<&str> = finished.text().lines().collect();
        assert_eq!(lines, ["nobody", "65534", "65534", "65534", "nobody nobody /nonexistent"]);
        assert_eq!(finished.end, Some(End::Code(1)), "shadow is not for everybody");
    }
}

#[tokio::test]
async fn orphans_are_collected() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    for _ in 0..10 {
        host.shell("(sleep 0.01 &) ; (true &)").await;
    }
    let children = format!("/proc/{0}/task/{0}/children", agent.pid());
    until("no child is left", || async { std::fs::read_to_string(&children).unwrap().is_empty() }).await;
}

#[tokio::test]
async fn a_hundred_processes_leave_no_descriptor_and_no_cgroup_behind() {
    let Some(agent) = Agent::start_with_cgroup().await else { return };
    let mut host = agent.open().await;
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", agent.pid())).unwrap().count();
    host.shell("true").await;
    let cgroups =
        || std::fs::read_dir(agent.user_cgroup()).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count();
    until("the first has left nothing", || async { cgroups() == 0 }).await;
    let before = descriptors();
    for _ in 0..100 {
        host.shell("echo x").await;
    }
    until("as many as before", || async { descriptors() == before && cgroups() == 0 }).await;
}
