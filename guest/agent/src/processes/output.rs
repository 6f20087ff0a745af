//! Carries one pipe of a process to the stream of its reader. While a reader is attached, a slow one holds the process back
//! through the full pipe; once it is gone, output is read and dropped, so that the process never waits for nobody.
//!
//! Invariant: what is held per process is at most `QUEUED_EVENTS` chunks; reads use one buffer for the whole agent.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;

use prost::bytes::Bytes;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc;
use tonic::Status;

use crate::contract::output::Stream;
use crate::contract::{Output, ProcessEvent, process_event::Event};
use crate::errno::check;
use crate::reaper::Leader;

pub type Events = mpsc::Sender<Result<ProcessEvent, Status>>;

/// With chunks of `CHUNK_BYTES` this is 256 KiB.
pub const QUEUED_EVENTS: usize = 8;
const CHUNK_BYTES: usize = 32 << 10;

thread_local! {
    static CHUNK: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK_BYTES].into());
}

/// Sends what comes through the pipe until it ends, or until everything has been sent that was in it when the leader had
/// ended: what children write later is not the leader's.
pub async fn forward(pipe: &mut Receiver, stream: Stream, events: &Events, mut leader: Leader) {
    let mut offset = 0;
    let mut owed: Option<usize> = None;
    while owed != Some(0) {
        // Room first, then bytes: what is read can always be handed on.
        let room = events.reserve().await.ok();
        if owed.is_none() {
            tokio::select! {
                readable = pipe.readable() => if readable.is_err() { return },
                _ = leader.wait_for(Option::is_some) => {
                    owed = Some(unread(pipe));
                    continue;
                }
            }
        }
        let read = CHUNK.with_borrow_mut(|chunk| {
            let length = match owed {
                None => pipe.try_read(chunk)?,
                // Straight from the kernel: tokio may not have heard yet that there is something to read.
                Some(owed) => read_now(pipe, &mut chunk[..owed.min(CHUNK_BYTES)])?,
            };
            Ok((length, room.as_ref().map(|_| Bytes::copy_from_slice(&chunk[..length]))))
        });
        match read {
            Ok((0, _)) => return,
            Ok((length, data)) => {
                if let (Some(room), Some(data)) = (room, data) {
                    room.send(Ok(event(Output { stream: stream.into(), offset, data })));
                }
                offset += length as u64;
                owed = owed.map(|owed| owed - length);
            }
            Err(e) if is_transient(&e) && owed.is_none() => {}
            Err(_) => return,
        }
    }
}

/// Reads and drops what children that outlive the leader write: closing the pipe would kill them.
pub async fn discard(pipe: Receiver) {
    while pipe.readable().await.is_ok() {
        match CHUNK.with_borrow_mut(|chunk| pipe.try_read(chunk)) {
            Ok(0) => return,
            Err(e) if !is_transient(&e) => return,
            _ => {}
        }
    }
}

fn event(output: Output) -> ProcessEvent {
    ProcessEvent { event: Some(Event::Output(output)) }
}

fn unread(pipe: &Receiver) -> usize {
    let mut bytes: libc::c_int = 0;
    if unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut bytes) } < 0 { 0 } else { bytes as usize }
}

fn read_now(pipe: &Receiver, buffer: &mut [u8]) -> io::Result<usize> {
    check(unsafe { libc::read(pipe.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) })
        .map(|length| length as usize)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
