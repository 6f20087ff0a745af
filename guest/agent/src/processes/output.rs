//! What a process prints: pumped from its pipe into a ring, and from the ring to whoever is attached.
//!
//! ```text
//! pipe ── pump ──► Log (ring) ──► reader ──► stream of a Start or an Attach
//!                             └─► reader ──► …
//! ```
//!
//! The pump waits for the fastest reader, so that a slow one holds the process back through the full pipe. Without a reader it
//! goes on, and the ring drops the oldest: the process never waits for nobody, nor for a host that is gone while another reads.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::bytes::Bytes;
use tokio::sync::{Notify, watch};
use tonic::Status;

use crate::reaper::Leader;

use super::channel::{Channel, is_transient};
use super::ring::{Budget, Ring};

const CHUNK_BYTES: usize = 32 << 10;
/// What a reader may be behind before the process waits for it.
const BACKLOG_BYTES: usize = 256 << 10;
const MAX_READERS: usize = 16;
/// What is read of a terminal after its leader has ended: the rest of what was printed, not an endless writer.
const LAST_WORDS_MAX_BYTES: usize = 1 << 20;

thread_local! {
    static CHUNK: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK_BYTES].into());
}

/// One output stream of a process.
pub struct Log {
    state: Mutex<State>,
    /// Changes whenever readers have something to look at.
    news: watch::Sender<()>,
    /// A reader has made room.
    room: Notify,
}

struct State {
    ring: Ring,
    /// Where each reader is: (its number, the position that it has got to).
    readers: Vec<(u64, u64)>,
    next_reader: u64,
    closed: bool,
}

impl Log {
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let state = State { ring: Ring::new(budget.clone()), readers: Vec::new(), next_reader: 0, closed: false };
        Arc::new(Self { state: Mutex::new(state), news: watch::Sender::new(()), room: Notify::new() })
    }

    pub fn end(&self) -> u64 {
        self.lock().ring.end()
    }

    pub fn held_bytes(&self) -> usize {
        self.lock().ring.held_bytes()
    }

    /// No more output will come.
    pub fn close(&self) {
        {
            let mut state = self.lock();
            state.closed = true;
            state.ring.finish();
        }
        self.news.send_replace(());
    }

    /// Forgets what no reader waits for.
    pub fn forget(&self) {
        let mut state = self.lock();
        let needed = state.readers.iter().map(|(_, at)| *at).min().unwrap_or(u64::MAX);
        state.ring.forget(needed);
    }

    pub fn attach(self: &Arc<Self>, offset: u64) -> Result<Reader, Status> {
        let mut state = self.lock();
        if offset > state.ring.end() {
            return Err(Status::out_of_range(format!("offset {offset}: only {} bytes were printed", state.ring.end())));
        }
        if state.readers.len() >= MAX_READERS {
            return Err(Status::resource_exhausted("too many readers are attached"));
        }
        let number = state.next_reader;
        state.next_reader += 1;
        state.readers.push((number, offset));
        let news = self.news.subscribe();
        Ok(Reader { log: self.clone(), number, news })
    }

    fn push(&self, data: &[u8]) {
        {
            let mut state = self.lock();
            let needed = state.fastest().unwrap_or(u64::MAX);
            state.ring.push(data, needed);
        }
        self.news.send_replace(());
    }

    async fn wait_for_room(&self) {
        while !self.lock().has_room() {
            self.room.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fastest(&self) -> Option<u64> {
        self.readers.iter().map(|(_, at)| *at).max()
    }

    fn has_room(&self) -> bool {
        let Some(fastest) = self.fastest() else { return true };
        let backlog = (self.ring.end() - fastest) as usize;
        backlog == 0 || backlog + CHUNK_BYTES <= BACKLOG_BYTES.min(self.ring.share())
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    Data { offset: u64, data: Bytes },
    Lost { offset: u64, size: u64 },
}

/// Reads one stream from a position on. Detached when it is dropped.
pub struct Reader {
    log: Arc<Log>,
    number: u64,
    news: watch::Receiver<()>,
}

impl Reader {
    /// None after the last byte of a stream that has ended.
    pub async fn next(&mut self) -> Option<Piece> {
        loop {
            self.news.mark_unchanged();
            let closed = match self.take() {
                Ok(piece) => {
                    self.log.room.notify_one();
                    return Some(piece);
                }
                Err(closed) => closed,
            };
            if closed || self.news.changed().await.is_err() {
                return None;
            }
        }
    }

    fn take(&mut self) -> Result<Piece, bool> {
        let mut state = self.log.lock();
        let State { ring, readers, closed, .. } = &mut *state;
        let Some((_, at)) = readers.iter_mut().find(|(number, _)| *number == self.number) else { return Err(true) };
        let offset = *at;
        if offset < ring.start() {
            *at = ring.start();
            return Ok(Piece::Lost { offset, size: *at - offset });
        }
        let data = ring.read(offset, CHUNK_BYTES);
        if data.is_empty() {
            return Err(*closed);
        }
        *at += data.len() as u64;
        Ok(Piece::Data { offset, data })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.log.lock().readers.retain(|(number, _)| *number != self.number);
        self.log.room.notify_one();
    }
}

/// Brings what comes through the channel to the log until it ends, or until everything is there that was in it when the
/// leader had ended: what children write later is not the leader's.
pub async fn pump(channel: &Channel, log: &Log, mut leader: Leader, is_terminal: bool) {
    let mut owed: Option<usize> = None;
    while owed != Some(0) {
        log.wait_for_room().await;
        if owed.is_none() {
            tokio::select! {
                readable = channel.readable() => if readable.is_err() { return },
                _ = leader.wait_for(Option::is_some) => {
                    // A terminal doesn't know how much it holds; it says when there is nothing more.
                    owed = Some(if is_terminal { LAST_WORDS_MAX_BYTES } else { channel.unread() });
                    continue;
                }
            }
        }
        let read = CHUNK.with_borrow_mut(|chunk| {
            let length = match owed {
                None => channel.read(chunk)?,
                Some(owed) => channel.read_now(&mut chunk[..owed.min(CHUNK_BYTES)])?,
            };
            log.push(&chunk[..length]);
            Ok::<_, io::Error>(length)
        });
        match read {
            Ok(0) => return,
            Ok(length) => {
                owed = owed.map(|owed| owed - length);
                // A pipe that is never empty must not keep the one thread of the agent.
                tokio::task::yield_now().await;
            }
            Err(e) if is_transient(&e) && owed.is_none() => {}
            Err(_) => return,
        }
    }
}

/// Reads and drops what children that outlive the leader write: closing the channel would kill them.
pub async fn discard(channel: Channel) {
    while channel.readable().await.is_ok() {
        match CHUNK.with_borrow_mut(|chunk| channel.read(chunk)) {
            Ok(0) => return,
            Err(e) if !is_transient(&e) => return,
            _ => tokio::task::yield_now().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::RING_MAX_BYTES;
    use super::*;

    fn log() -> Arc<Log> {
        Log::new(&Arc::default())
    }

    #[tokio::test]
    async fn a_reader_gets_everything_from_its_offset_on_and_then_the_end() {
        let log = log();
        log.push(b"abcdef");
        let mut reader = log.attach(2).unwrap();
        log.push(b"gh");
        log.close();
        assert_eq!(reader.next().await, Some(Piece::Data { offset: 2, data: Bytes::from_static(b"cdefgh") }));
        assert_eq!(reader.next().await, None);
        assert_eq!(log.attach(9).err().map(|e| e.code()), Some(tonic::Code::OutOfRange));
    }

    #[tokio::test]
    async fn what_was_dropped_is_told() {
        let log = log();
        log.push(b"first");
        let mut slow = log.attach(0).unwrap();
        let mut fast = log.attach(5).unwrap();
        log.push(&vec![1; RING_MAX_BYTES]);
        assert_eq!(slow.next().await, Some(Piece::Lost { offset: 0, size: 5 }));
        assert!(matches!(fast.next().await, Some(Piece::Data { offset: 5, .. })));
    }

    #[tokio::test]
    async fn there_is_room_while_the_fastest_reader_keeps_up_or_nobody_reads() {
        let log = log();
        let has_room = || log.lock().has_room();
        log.push(&vec![0; BACKLOG_BYTES]);
        assert!(has_room());
        let slow = log.attach(0).unwrap();
        assert!(!has_room());
        let fast = log.attach(log.end()).unwrap();
        assert!(has_room());
        drop(fast);
        assert!(!has_room());
        drop(slow);
        assert!(has_room());
    }
}
