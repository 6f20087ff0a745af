//! Serves the link on one port until the host goes away. The link never waits for the HTTP/2 connection that it carries: a
//! `SYNC` must be seen however stuck the current session is.
//!
//! ```text
//! port ──► parser ──► inbound  ──► HTTP/2 server      inbound holds what HTTP/2 windows allow, and no more
//! port ◄── frame  ◄── outbound ◄──                    outbound fills up when the host doesn't read
//! ```
//!
//! A session's server starts with the session's first `DATA`, so before it the agent has sent nothing but `SYNCED`; a
//! repeated `SYNC` can then be answered again without cutting into a stream.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Join, ReadHalf, SimplexStream, WriteHalf};
use tokio::task::JoinHandle;

use crate::server::CONNECTION_WINDOW_BYTES;

use super::frame::{Event, HEADER_BYTES, Header, Kind, Parser};

/// What a session's HTTP/2 server reads from and writes to.
pub type Stream = Join<ReadHalf<SimplexStream>, WriteHalf<SimplexStream>>;

/// The HTTP/2 connection window and room for frames that it doesn't count. More than this unread is no HTTP/2.
const INBOUND_MAX_BYTES: usize = CONNECTION_WINDOW_BYTES as usize + (1 << 20);
const OUTBOUND_MAX_BYTES: usize = 64 << 10;
/// A frame fits the 32 KiB that the kernel moves per write to a port.
const SEND_PAYLOAD_BYTES: usize = (32 << 10) - HEADER_BYTES;
const READ_BYTES: usize = 32 << 10;

/// Returns when the host has closed the port, or with the port's error. `start` runs an HTTP/2 server on a session.
pub async fn serve<P, S>(port: P, start: S) -> io::Result<()>
where
    P: AsyncRead + AsyncWrite,
    S: Fn(Stream) -> JoinHandle<()>,
{
    let (mut from_host, mut to_host) = tokio::io::split(port);
    let mut parser = Parser::default();
    let mut read_buffer = vec![0; READ_BYTES];
    let mut sending = Sending::default();
    let mut session: Option<Session> = None;
    loop {
        tokio::select! {
            read = from_host.read(&mut read_buffer) => {
                let length = read?;
                if length == 0 {
                    return Ok(());
                }
                let mut input = &read_buffer[..length];
                while let Some(event) = parser.next(&mut input) {
                    match event {
                        Event::Sync(id) => {
                            if session.as_ref().is_none_or(|current| !current.is_fresh(id)) {
                                session = Some(Session::new(id));
                            }
                            sending.synced(id);
                        }
                        Event::Data(id, bytes) => {
                            let Some(current) = session.as_mut().filter(|current| current.id == id) else { continue };
                            if !current.receive(bytes, &start).await {
                                session = None;
                            }
                        }
                    }
                }
            }
            sent = send(&mut to_host, &mut sending, &mut session) => sent?,
        }
    }
}

/// One step of sending: some of the frame at hand, or else the next frame. Loses nothing when it is cancelled.
async fn send<P>(port: &mut WriteHalf<P>, sending: &mut Sending, session: &mut Option<Session>) -> io::Result<()>
where
    P: AsyncWrite,
{
    if !sending.is_empty() {
        return match port.write(sending.unsent()).await? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            length => {
                sending.sent(length);
                Ok(())
            }
        };
    }
    let Some(Session { id, server: Some(server) }) = session else {
        return std::future::pending().await;
    };
    match server.outbound.read(sending.payload()).await {
        Ok(length) if length > 0 => sending.data(*id, length),
        _ => *session = None, // Its server has ended it.
    }
    Ok(())
}

struct Session {
    id: u64,
    server: Option<Server>,
}

struct Server {
    inbound: WriteHalf<SimplexStream>,
    outbound: ReadHalf<SimplexStream>,
    task: JoinHandle<()>,
}

impl Session {
    fn new(id: u64) -> Self {
        Self { id, server: None }
    }

    /// Whether a `SYNC` of this id repeats the one that opened this session.
    fn is_fresh(&self, id: u64) -> bool {
        self.id == id && self.server.is_none()
    }

    /// False: the server has ended, or the host has sent more than HTTP/2 allows.
    async fn receive(&mut self, bytes: &[u8], start: &impl Fn(Stream) -> JoinHandle<()>) -> bool {
        let server = self.server.get_or_insert_with(|| Server::start(start));
        // Polled once: to wait here would keep the link from seeing the next SYNC. Unconstrained, since many small frames at
        // once would use up the task's budget, and it would then look full.
        let mut write = pin!(tokio::task::unconstrained(server.inbound.write_all(bytes)));
        std::future::poll_fn(|context| Poll::Ready(matches!(write.as_mut().poll(context), Poll::Ready(Ok(()))))).await
    }
}

impl Server {
    fn start(start: &impl Fn(Stream) -> JoinHandle<()>) -> Self {
        let (inbound_reader, inbound) = tokio::io::simplex(INBOUND_MAX_BYTES);
        let (outbound, outbound_writer) = tokio::io::simplex(OUTBOUND_MAX_BYTES);
        let task = start(tokio::io::join(inbound_reader, outbound_writer));
        Self { inbound, outbound, task }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One frame on its way to the port.
struct Sending {
    frame: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Default for Sending {
    fn default() -> Self {
        Self { frame: vec![0; HEADER_BYTES + SEND_PAYLOAD_BYTES].into(), start: 0, end: 0 }
    }
}

impl Sending {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn unsent(&self) -> &[u8] {
        &self.frame[self.start..self.end]
    }

    fn sent(&mut self, length: usize) {
        self.start += length;
    }

    fn payload(&mut self) -> &mut [u8] {
        &mut self.frame[HEADER_BYTES..]
    }

    /// Takes the place of whatever was unsent: it belongs to the past, and the host searches for exactly this header.
    fn synced(&mut self, session: u64) {
        self.put(Header { kind: Kind::Synced, session, length: 0 });
    }

    fn data(&mut self, session: u64, length: usize) {
        self.put(Header { kind: Kind::Data, session, length });
    }

    fn put(&mut self, header: Header) {
        self.frame[..HEADER_BYTES].copy_from_slice(&header.encode());
        (self.start, self.end) = (0, HEADER_BYTES + header.length);
    }
}
