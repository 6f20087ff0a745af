//! The host's side, for tests: an agent process of its own for each test, and the link of `guest/proto/LINK.md` written a second
//! time, from the document and not from the agent's code.
#![allow(dead_code)]

pub mod contract {
    #![allow(clippy::all, clippy::pedantic)]
    tonic::include_proto!("space.guest.v1");
}
pub mod link;

use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use contract::files_client::FilesClient;
use contract::machine_client::MachineClient;
use contract::processes_client::ProcessesClient;
use contract::tunnels_client::TunnelsClient;
use contract::{ProcessEvent, StartRequest, exited::End, output::Stream, process_event::Event};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

const WAIT_LIMIT: Duration = Duration::from_secs(20);

pub struct Agent {
    pub directory: PathBuf,
    process: Child,
    cgroup: Option<PathBuf>,
}

impl Agent {
    pub async fn start() -> Self {
        Self::start_with(None, &[]).await
    }

    /// With a way out: `port` for connections, and answers for names at `dns`.
    pub async fn start_with_way_out(port: u16, dns: u16) -> Self {
        Self::start_with(None, &["--outgoing", &port.to_string(), "--dns", &dns.to_string()]).await
    }

    /// With a cgroup tree of its own, where the machine has cgroup v2. None, and a line that says so, where it hasn't.
    pub async fn start_with_cgroup() -> Option<Self> {
        let made = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
            .iter()
            .map(Path::new)
            .find(|root| root.join("cgroup.controllers").exists())
            .map(|root| root.join(format!("space-agent-test-{}-{}", std::process::id(), number())))
            .filter(|cgroup| std::fs::create_dir(cgroup).is_ok());
        match made {
            Some(cgroup) => Some(Self::start_with(Some(cgroup), &[]).await),
            None => {
                eprintln!("SKIPPED: no writable cgroup v2 on this machine");
                None
            }
        }
    }

    async fn start_with(cgroup: Option<PathBuf>, more: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("space-agent-test-{}-{}", std::process::id(), number()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_space-agent"));
        command.arg("--listen").arg(&directory).arg("--dry-identity").args(more).stderr(Stdio::null());
        if let Some(cgroup) = &cgroup {
            command.arg("--cgroup").arg(cgroup);
        }
        let process = command.spawn().unwrap();
        let agent = Self { directory, process, cgroup };
        until("the agent listens", || async { agent.directory.join("traffic").exists() }).await;
        agent
    }

    pub async fn open(&self) -> Host {
        Host::open(&self.directory.join("control")).await
    }

    pub async fn open_traffic(&self) -> Host {
        Host::open(&self.directory.join("traffic")).await
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn user_cgroup(&self) -> PathBuf {
        self.cgroup.as_ref().unwrap().join("user")
    }

    pub fn has_cgroup(&self, process_id: &str) -> bool {
        self.user_cgroup().join(process_id).exists()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(cgroup) = &self.cgroup {
            let _ = std::fs::write(cgroup.join("cgroup.kill"), "1");
            let deadline = Instant::now() + WAIT_LIMIT;
            while remove_cgroup(cgroup).is_err() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn remove_cgroup(cgroup: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(cgroup)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove_cgroup(&entry.path())?;
        }
    }
    std::fs::remove_dir(cgroup)
}

/// A session with the agent.
#[derive(Clone)]
pub struct Host {
    pub machine: MachineClient<Channel>,
    pub processes: ProcessesClient<Channel>,
    pub files: FilesClient<Channel>,
    pub tunnels: TunnelsClient<Channel>,
}

impl Host {
    pub async fn open(socket: &Path) -> Self {
        // A socket is there a moment before it is listened on.
        let mut opened = link::open(socket).await;
        let deadline = Instant::now() + WAIT_LIMIT;
        while opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
            && Instant::now() < deadline
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
            opened = link::open(socket).await;
        }
        Self::over(opened.unwrap()).await
    }

    pub async fn over(stream: tokio::io::DuplexStream) -> Self {
        let channel = link::channel(stream).await;
        Self {
            machine: MachineClient::new(channel.clone()),
            processes: ProcessesClient::new(channel.clone()),
            files: FilesClient::new(channel.clone()),
            tunnels: TunnelsClient::new(channel),
        }
    }

    pub async fn start(&mut self, request: StartRequest) -> Result<Streaming<ProcessEvent>, Status> {
        self.processes.start(request).await.map(tonic::Response::into_inner)
    }

    pub async fn run(&mut self, request: StartRequest) -> Result<Finished, Status> {
        let mut events = self.start(request).await?;
        let mut finished = Finished::default();
        while let Some(event) = events.message().await? {
            finished.take(event);
        }
        Ok(finished)
    }

    /// What a shell of the current user prints and how it ends.
    pub async fn shell(&mut self, script: &str) -> Finished {
        self.run(shell(script)).await.unwrap()
    }
}

pub fn command(argv: &[&str]) -> StartRequest {
    StartRequest {
        process_id: format!("prc-{}-{}", std::process::id(), number()),
        argv: argv.iter().map(|arg| arg.as_bytes().to_vec().into()).collect(),
        user: own_uid().to_string(),
        cwd: b"/"[..].into(),
        ..StartRequest::default()
    }
}

pub fn shell(script: &str) -> StartRequest {
    command(&["/bin/sh", "-c", script])
}

#[derive(Debug, Default)]
pub struct Finished {
    pub pid: u32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub end: Option<End>,
    pub timed_out: bool,
}

impl Finished {
    pub fn take(&mut self, event: ProcessEvent) {
        assert!(self.end.is_none(), "an event after Exited");
        match event.event.unwrap() {
            Event::Started(started) => {
                assert!(self.pid == 0 && self.stdout.is_empty() && self.stderr.is_empty(), "Started is not first");
                self.pid = started.pid;
            }
            Event::Output(output) => {
                let stream = output.stream();
                let joined = if stream == Stream::Stdout { &mut self.stdout } else { &mut self.stderr };
                assert_eq!(output.offset, joined.len() as u64, "a gap or a repeat in {stream:?}");
                joined.extend_from_slice(&output.data);
            }
            Event::Exited(exited) => {
                self.end = Some(exited.end.unwrap());
                self.timed_out = exited.timed_out;
            }
            Event::Lost(lost) => panic!("lost: {lost:?}"),
        }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}

/// Waits for a condition, with a bound.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + WAIT_LIMIT;
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub fn is_root() -> bool {
    own_uid() == 0
}

pub fn own_uid() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap())
}

pub fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
