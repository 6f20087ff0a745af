//! The Processes service: checks a request and passes it on.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::bytes::Bytes;
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::cgroup::Cgroups;
use crate::contract::{
    AttachRequest, ListProcessesReply, ListProcessesRequest, ProcessEvent, ProcessStatus, Pty, ResizeReply,
    ResizeRequest, SignalReply, SignalRequest, StartRequest, WriteInputReply, WriteInputRequest, processes_server,
};
use crate::errno::status;
use crate::machine::clock_ns;
use crate::reaper::Reaper;
use crate::users;

use super::attach::{attach, stream};
use super::command::{Command, terminal, validate_process_id};
use super::input::Input;
use super::life::{Channels, Life};
use super::output::Log;
use super::ring::Budget;
use super::spawn::{Anchors, spawn};
use super::table::{Process, Table, shorten};

/// Why nothing is started: user processes stand still, for a snapshot.
pub const FROZEN: &str = "frozen";
/// Of each command, for List.
const LABEL_MAX_BYTES: usize = 4096;

#[derive(Clone)]
pub struct Processes {
    cgroups: Option<Arc<Cgroups>>,
    reaper: Reaper,
    anchors: Arc<Anchors>,
    table: Arc<Table>,
    budget: Arc<Budget>,
}

impl Processes {
    pub fn new(cgroups: Option<Arc<Cgroups>>, reaper: Reaper, anchors: Anchors) -> Self {
        Self { cgroups, reaper, anchors: Arc::new(anchors), table: Arc::default(), budget: Arc::default() }
    }

    pub fn forget_ended(&self) {
        self.table.forget_ended();
    }
}

fn describe(process: &Process) -> ProcessStatus {
    ProcessStatus {
        process_id: process.id.clone(),
        pid: process.pid as u32,
        argv: process.argv.clone(),
        leader_alive: process.leader_is_alive(),
        live_processes: process.live_processes(),
        started_ns: process.started_ns,
        cwd: process.cwd.clone().into(),
        label: process.label.clone(),
        pty: process.is_terminal,
        exited: process.exited.borrow().as_ref().and_then(|end| end.as_ref().ok().copied()),
        stdout_bytes: process.stdout.end(),
        stderr_bytes: process.stderr.end(),
        stdin_bytes: process.input.accepted(),
    }
}

#[tonic::async_trait]
impl processes_server::Processes for Processes {
    type StartStream = ReceiverStream<Result<ProcessEvent, Status>>;
    type AttachStream = Self::StartStream;

    async fn start(&self, request: Request<StartRequest>) -> Result<Response<Self::StartStream>, Status> {
        let request = request.into_inner();
        validate_process_id(&request.process_id)?;
        self.table.check_free(&request.process_id)?;
        if let Some(cgroups) = &self.cgroups {
            if cgroups.is_freezing().map_err(|e| status(&e, "cgroup.freeze"))? {
                return Err(Status::failed_precondition(FROZEN));
            }
        }
        if request.label.len() > LABEL_MAX_BYTES {
            return Err(Status::invalid_argument(format!("label: more than {LABEL_MAX_BYTES} bytes")));
        }
        let command = Command::new(&request, users::requested(&request.user)?)?;
        let cgroup = match &self.cgroups {
            Some(cgroups) => Some(cgroups.create_process(&request.process_id).map_err(|e| status(&e, "cgroup"))?),
            None => None,
        };
        let cwd = command.cwd.as_bytes().to_vec();
        // Nothing is awaited from here to `follow`: the reaper runs on this thread and must find the child adopted.
        let spawned = spawn(command, cgroup.as_ref().map(|cgroup| cgroup.directory()), &self.anchors);
        let spawned = spawned.map_err(|e| {
            if let Some(cgroup) = &cgroup {
                cgroup.remove();
            }
            status(&e, "fork")
        })?;
        let leader = self.reaper.adopt(spawned.pid);
        let process = Arc::new(Process {
            id: request.process_id,
            pid: spawned.pid,
            argv: shorten(&request.argv),
            cwd,
            // A copy, so that it doesn't hold the request in memory.
            label: Bytes::copy_from_slice(&request.label),
            is_terminal: spawned.is_terminal(),
            started_ns: clock_ns(libc::CLOCK_REALTIME),
            cgroup: Mutex::new(cgroup.map(Arc::new)),
            leader,
            input: Input::new(spawned.stdin),
            stdout: Log::new(&self.budget),
            stderr: Log::new(&self.budget),
            exited: watch::Sender::new(None),
        });
        self.table.insert(process.clone());
        // Attached before the first byte, so that it loses none.
        let readers = attach(&process, 0, 0)?;
        let timeout = Some(request.timeout_ms).filter(|limit| *limit > 0).map(Duration::from_millis);
        let life = Life { process: process.clone(), table: self.table.clone(), reaper: self.reaper.clone(), timeout };
        let channels = Channels { stdout: spawned.stdout, stderr: spawned.stderr, child: spawned.child };
        life.follow(channels).await.map_err(|_| Status::internal("the process was lost"))??;
        Ok(Response::new(ReceiverStream::new(stream(process, readers))))
    }

    async fn attach(&self, request: Request<AttachRequest>) -> Result<Response<Self::AttachStream>, Status> {
        let AttachRequest { process_id, stdout_offset, stderr_offset } = request.into_inner();
        let process = self.table.find_kept(&process_id)?;
        let readers = attach(&process, stdout_offset, stderr_offset)?;
        Ok(Response::new(ReceiverStream::new(stream(process, readers))))
    }

    async fn write_input(&self, request: Request<WriteInputRequest>) -> Result<Response<WriteInputReply>, Status> {
        let WriteInputRequest { process_id, offset, data, eof } = request.into_inner();
        let process = self.table.find_kept(&process_id)?;
        let accepted = process.input.write(offset, &data, eof).await?;
        Ok(Response::new(WriteInputReply { accepted }))
    }

    async fn resize(&self, request: Request<ResizeRequest>) -> Result<Response<ResizeReply>, Status> {
        let ResizeRequest { process_id, cols, rows } = request.into_inner();
        let size = terminal(&Pty { cols, rows, term: String::new() })?;
        self.table.find_kept(&process_id)?.input.resize(&size)?;
        Ok(Response::new(ResizeReply {}))
    }

    async fn signal(&self, request: Request<SignalRequest>) -> Result<Response<SignalReply>, Status> {
        let request = request.into_inner();
        let signal = request.signal as i32;
        if !(0..=64).contains(&signal) {
            return Err(Status::invalid_argument("signal: 0 to 64"));
        }
        let process = self.table.find(&request.process_id)?;
        if !request.tree {
            self.reaper.signal(process.pid, signal).map_err(|e| status(&e, "kill"))?;
            return Ok(Response::new(SignalReply {}));
        }
        let Some(cgroup) = process.cgroup() else {
            return Err(Status::failed_precondition("this agent runs without cgroups"));
        };
        if signal != libc::SIGKILL {
            cgroup.signal(signal).map_err(|e| status(&e, "kill"))?;
            return Ok(Response::new(SignalReply {}));
        }
        match process.kill(&self.reaper).await {
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                Err(Status::deadline_exceeded("killed, but not every process has ended yet"))
            }
            killed => killed.map(|()| Response::new(SignalReply {})).map_err(|e| status(&e, "cgroup.kill")),
        }
    }

    async fn list(&self, request: Request<ListProcessesRequest>) -> Result<Response<ListProcessesReply>, Status> {
        let ended = request.get_ref().ended;
        // One whose last output is still being read is not among the kept yet, but dead.
        let is_wanted = |process: &ProcessStatus| ended || process.leader_alive || process.live_processes > 0;
        let processes = self.table.all().iter().map(|process| describe(process)).filter(is_wanted).collect();
        Ok(Response::new(ListProcessesReply { processes }))
    }
}
