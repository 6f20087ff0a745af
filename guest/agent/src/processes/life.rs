//! One process from exec to the last of its tree, as one task of the agent. It goes on whatever becomes of the streams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tonic::Status;

use crate::contract::{Exited, exited::End};
use crate::errno;
use crate::log;
use crate::reaper::{Ended, Reaper};

use super::channel::Channel;
use super::output::{discard, pump};
use super::spawn::{self, Child, Step};
use super::table::{Process, Table};

/// The agent's ends of a child that has just been cloned.
pub struct Channels {
    pub stdout: Channel,
    pub stderr: Option<Channel>,
    pub child: Child,
}

pub struct Life {
    pub process: Arc<Process>,
    pub table: Arc<Table>,
    pub reaper: Reaper,
    pub timeout: Option<Duration>,
}

impl Life {
    /// The answer comes once it is clear whether exec took place.
    pub fn follow(self, channels: Channels) -> oneshot::Receiver<Result<(), Status>> {
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let ran = self.live(channels, answer).await;
            self.process.release().await;
            self.table.remove(&self.process.id, ran);
        });
        answered
    }

    /// Returns when no process of the tree is left; false if the command never ran.
    async fn live(&self, channels: Channels, answer: oneshot::Sender<Result<(), Status>>) -> bool {
        let process = &*self.process;
        let Channels { stdout, stderr, child } = channels;
        if let Err(status) = outcome(child).await {
            // Told only after the traces are gone, so that the id can be used again at once.
            if process.leader_is_alive() {
                // Not collected yet, so the pid is still the child's.
                unsafe { libc::kill(process.pid, libc::SIGKILL) };
            }
            process.ended().await;
            empty(process).await;
            let _ = answer.send(Err(status));
            return false;
        }
        let _ = answer.send(Ok(()));
        let end = self.run(&stdout, stderr.as_ref()).await;
        process.stdout.close();
        process.stderr.close();
        process.exited.send_replace(Some(end));
        let discard_stderr = async {
            if let Some(stderr) = stderr {
                discard(stderr).await;
            }
        };
        tokio::join!(empty(process), discard(stdout), discard_stderr);
        true
    }

    /// Until the leader has ended and its output is in the logs; or, when its time has passed, until its tree is gone.
    async fn run(&self, stdout: &Channel, stderr: Option<&Channel>) -> Result<Exited, Status> {
        let process = &*self.process;
        let pump_stderr = async {
            if let Some(stderr) = stderr {
                pump(stderr, &process.stderr, process.leader.clone(), false).await;
            }
        };
        let mut printing = std::pin::pin!(async {
            tokio::join!(pump(stdout, &process.stdout, process.leader.clone(), process.is_terminal), pump_stderr);
            // The pipes of a process that has closed its output end before it.
            process.ended().await
        });
        let mut killed = false;
        let ended = tokio::select! {
            biased;
            ended = &mut printing => ended,
            () = time_limit(self.timeout) => {
                // One that ended by itself was in time; its output is still on its way to a slow reader.
                if process.leader_is_alive() {
                    killed = true;
                    process.kill(&self.reaper).await.map_err(|e| match e.kind() {
                        io::ErrorKind::TimedOut => Status::deadline_exceeded("its time had passed, and it could not be killed"),
                        _ => errno::status(&e, "its time had passed, and it could not be killed"),
                    })?;
                }
                printing.await
            }
        };
        let oom = process.cgroup().is_some_and(|cgroup| cgroup.was_hit_by_oom_killer());
        match ended {
            Some(Ended::Code(code)) => Ok(Exited { end: Some(End::Code(code)), timed_out: false, oom }),
            Some(Ended::Signal(signal)) => {
                let timed_out = killed && signal == libc::SIGKILL as u32;
                Ok(Exited { end: Some(End::Signal(signal)), timed_out, oom })
            }
            None => Err(Status::internal("the end of the process was lost")),
        }
    }
}

async fn time_limit(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

async fn outcome(child: Child) -> Result<(), Status> {
    match spawn::exec_failure(child).await {
        Ok(None) => Ok(()),
        Ok(Some((step, errno))) => Err(failure(step, errno)),
        Err(e) => Err(errno::status(&e, "exec")),
    }
}

fn failure(step: Step, errno: i32) -> Status {
    let error = io::Error::from_raw_os_error(errno);
    match step {
        Step::Prepare => errno::status(&error, "prepare"),
        Step::Credentials => errno::status(&error, "become the user"),
        Step::Cwd => Status::failed_precondition(errno::message(&error, "cwd")),
        Step::Exec => errno::status(&error, "exec"),
    }
}

async fn empty(process: &Process) {
    if let Some(cgroup) = process.cgroup() {
        if let Err(error) = cgroup.empty().await {
            log::error(&format!("cgroup of {}: {error}", process.id));
        }
        cgroup.remove();
    }
}
