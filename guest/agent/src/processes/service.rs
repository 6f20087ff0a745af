//! The Processes service: checks a request and passes it on.

use std::sync::Arc;
use std::time::Duration;

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::cgroup::Cgroups;
use crate::contract::{
    ListProcessesReply, ListProcessesRequest, ProcessEvent, ProcessStatus, SignalReply, SignalRequest, StartRequest,
    processes_server,
};
use crate::errno::status;
use crate::reaper::Reaper;
use crate::users;

use super::command::{Command, validate_process_id};
use super::life;
use super::spawn::{Anchors, spawn};
use super::table::{Process, Table, shorten};

/// A killed process can be stuck in the kernel, on a slow disk for example; the caller is told rather than kept waiting.
const KILL_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Processes {
    cgroups: Option<Arc<Cgroups>>,
    reaper: Reaper,
    anchors: Arc<Anchors>,
    table: Arc<Table>,
}

impl Processes {
    pub fn new(cgroups: Option<Arc<Cgroups>>, reaper: Reaper, anchors: Anchors) -> Self {
        Self { cgroups, reaper, anchors: Arc::new(anchors), table: Arc::default() }
    }
}

fn describe(process: &Process) -> ProcessStatus {
    let leader_alive = process.leader_is_alive();
    ProcessStatus {
        process_id: process.id.clone(),
        pid: process.pid as u32,
        argv: process.argv.clone(),
        leader_alive,
        live_processes: process.cgroup.as_ref().map_or(leader_alive.into(), |cgroup| cgroup.count()),
    }
}

#[tonic::async_trait]
impl processes_server::Processes for Processes {
    type StartStream = ReceiverStream<Result<ProcessEvent, Status>>;

    async fn start(&self, request: Request<StartRequest>) -> Result<Response<Self::StartStream>, Status> {
        let request = request.into_inner();
        validate_process_id(&request.process_id)?;
        self.table.check_free(&request.process_id)?;
        if let Some(cgroups) = &self.cgroups {
            if cgroups.is_freezing().map_err(|e| status(&e, "cgroup.freeze"))? {
                return Err(Status::failed_precondition("frozen"));
            }
        }
        let command = Command::new(&request, users::requested(&request.user)?)?;
        let cgroup = match &self.cgroups {
            Some(cgroups) => Some(cgroups.create_process(&request.process_id).map_err(|e| status(&e, "cgroup"))?),
            None => None,
        };
        // Nothing is awaited from here to `follow`: the reaper runs on this thread and must find the child adopted.
        let spawned = spawn(&command, cgroup.as_ref().map(|cgroup| cgroup.directory()), &self.anchors);
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
            cgroup,
            leader,
        });
        self.table.insert(process.clone());
        let answered = life::follow(process, self.table.clone(), spawned);
        let reader = answered.await.map_err(|_| Status::internal("the process was lost"))??;
        Ok(Response::new(ReceiverStream::new(reader)))
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
        let Some(cgroup) = &process.cgroup else {
            return Err(Status::failed_precondition("this agent runs without cgroups"));
        };
        if signal != libc::SIGKILL {
            cgroup.signal(signal).map_err(|e| status(&e, "kill"))?;
            return Ok(Response::new(SignalReply {}));
        }
        let confirmed = async {
            cgroup.kill().await?;
            process.ended().await;
            Ok(())
        };
        match tokio::time::timeout(KILL_LIMIT, confirmed).await {
            Ok(killed) => killed.map(|()| Response::new(SignalReply {})).map_err(|e| status(&e, "cgroup.kill")),
            Err(_) => Err(Status::deadline_exceeded("killed, but not every process has ended yet")),
        }
    }

    async fn list(&self, _: Request<ListProcessesRequest>) -> Result<Response<ListProcessesReply>, Status> {
        let all = self.table.all();
        // One whose last output is still being read is in the table, but dead.
        let is_alive = |process: &ProcessStatus| process.leader_alive || process.live_processes > 0;
        let processes = all.iter().map(|process| describe(process)).filter(is_alive).collect();
        Ok(Response::new(ListProcessesReply { processes }))
    }
}
