//! One process from exec to the last of its tree, as one task of the agent. It goes on whatever becomes of the stream.

use std::io;
use std::sync::Arc;

use tokio::net::unix::pipe::Receiver;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use crate::contract::output::Stream;
use crate::contract::{Exited, ProcessEvent, Started, exited::End, process_event::Event};
use crate::errno;
use crate::log;
use crate::reaper::Ended;

use super::output::{Events, QUEUED_EVENTS, discard, forward};
use super::spawn::{self, Spawned, Step};
use super::table::{Process, Table};

pub type EventReader = mpsc::Receiver<Result<ProcessEvent, Status>>;

/// Follows a child that has just been cloned. The answer comes once it is clear whether exec took place.
pub fn follow(
    process: Arc<Process>,
    table: Arc<Table>,
    spawned: Spawned,
) -> oneshot::Receiver<Result<EventReader, Status>> {
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        let ran = live(&process, spawned, answer).await;
        table.remove(&process.id, ran);
    });
    answered
}

/// Returns when no process of the tree is left; false if the command never ran.
async fn live(process: &Process, spawned: Spawned, answer: oneshot::Sender<Result<EventReader, Status>>) -> bool {
    let (events, reader) = mpsc::channel(QUEUED_EVENTS);
    let pipes = match outcome(spawned).await {
        Ok(pipes) => {
            let started = Event::Started(Started { pid: process.pid as u32 });
            // The queue is new and empty, so this waits for nothing.
            let _ = events.send(Ok(ProcessEvent { event: Some(started) })).await;
            let _ = answer.send(Ok(reader));
            pipes
        }
        Err(status) => {
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
    };
    let mut pipes = pipes;
    report(process, &mut pipes, events).await;
    let [stdout, stderr] = pipes;
    tokio::join!(empty(process), discard(stdout), discard(stderr));
    true
}

async fn outcome(spawned: Spawned) -> Result<[Receiver; 2], Status> {
    let pipes = || Ok([Receiver::from_owned_fd(spawned.stdout)?, Receiver::from_owned_fd(spawned.stderr)?]);
    let pipes = pipes().map_err(|e: io::Error| errno::status(&e, "output"))?;
    match spawn::exec_failure(spawned.report).await {
        Ok(None) => Ok(pipes),
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

/// Output, then the end. The sender is dropped on return, which ends the stream.
async fn report(process: &Process, pipes: &mut [Receiver; 2], events: Events) {
    let [stdout, stderr] = pipes;
    tokio::join!(
        forward(stdout, Stream::Stdout, &events, process.leader.clone()),
        forward(stderr, Stream::Stderr, &events, process.leader.clone()),
    );
    if let Some(end) = process.ended().await {
        let end = match end {
            Ended::Code(code) => End::Code(code),
            Ended::Signal(signal) => End::Signal(signal),
        };
        let _ = events.send(Ok(ProcessEvent { event: Some(Event::Exited(Exited { end: Some(end) })) })).await;
    }
}

async fn empty(process: &Process) {
    if let Some(cgroup) = &process.cgroup {
        if let Err(error) = cgroup.empty().await {
            log::error(&format!("cgroup of {}: {error}", process.id));
        }
        cgroup.remove();
    }
}
