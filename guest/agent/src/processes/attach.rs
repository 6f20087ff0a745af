//! The stream of one reader: a task that takes from the logs at the pace of the host.

use std::sync::Arc;

use tokio::sync::mpsc;
use tonic::Status;

use crate::contract::output::Stream;
use crate::contract::{Lost, Output, ProcessEvent, Started, process_event::Event};

use super::output::{Piece, Reader};
use super::table::Process;

pub type Events = mpsc::Receiver<Result<ProcessEvent, Status>>;
type Sender = mpsc::Sender<Result<ProcessEvent, Status>>;

/// Beside it, each reader holds at most one piece.
const QUEUED_EVENTS: usize = 2;

/// Readers of stdout and stderr.
pub type Readers = [Reader; 2];

pub fn attach(process: &Process, stdout_offset: u64, stderr_offset: u64) -> Result<Readers, Status> {
    Ok([process.stdout.attach(stdout_offset)?, process.stderr.attach(stderr_offset)?])
}

pub fn stream(process: Arc<Process>, readers: Readers) -> Events {
    let (sender, events) = mpsc::channel(QUEUED_EVENTS);
    tokio::spawn(async move {
        tokio::select! {
            // The host has gone: the process is not held back by it any longer.
            () = sender.closed() => {}
            _ = tell(&process, readers, &sender) => {}
        }
    });
    events
}

/// None: the host has gone.
async fn tell(process: &Process, [stdout, stderr]: Readers, sender: &Sender) -> Option<()> {
    send(sender, Event::Started(Started { pid: process.pid as u32 })).await?;
    let (out, err) = tokio::join!(forward(stdout, Stream::Stdout, sender), forward(stderr, Stream::Stderr, sender));
    out.and(err)?;
    let mut exited = process.exited.subscribe();
    let end = exited.wait_for(Option::is_some).await.ok()?.clone()?;
    let event = end.map(|exited| ProcessEvent { event: Some(Event::Exited(exited)) });
    sender.send(event).await.ok()
}

async fn forward(mut reader: Reader, stream: Stream, sender: &Sender) -> Option<()> {
    let stream = stream.into();
    while let Some(piece) = reader.next().await {
        let event = match piece {
            Piece::Data { offset, data } => Event::Output(Output { stream, offset, data }),
            Piece::Lost { offset, size } => Event::Lost(Lost { stream, offset, size }),
        };
        send(sender, event).await?;
    }
    Some(())
}

async fn send(sender: &Sender, event: Event) -> Option<()> {
    sender.send(Ok(ProcessEvent { event: Some(event) })).await.ok()
}
