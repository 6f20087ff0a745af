//! The way out: connections that programs open to somewhere else, on their way to the host.
//!
//! ```text
//! program ── name ──► name server ── an address that stands for it          (dns, names)
//! program ── connect ──► kernel, redirected ──► listener ── announced ──► host
//!                                                   └── taken by Carry ◄── host
//! ```
//!
//! While no host listens, nothing is accepted: connections wait in the kernel. What an earlier life began is reset. Idle, there
//! is no timer and no wake-up. Nothing here lets anything out: that is the host's.

pub mod destination;
mod dns;
mod name_server;
mod names;
pub mod plan;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tonic::Status;

use crate::contract::Accepted;
use crate::errno::check;
use crate::log;

use name_server::{NameServer, pause};
use names::Names;
use plan::Range;

/// At once; the windows of HTTP/2 are sized for so many that all stand still (see `server.rs`). The next wait.
pub const MAX_OUTGOING: usize = 256;
/// What waits to be accepted, of each kind of address.
const BACKLOG: u32 = 512;

pub type Announcements = mpsc::Sender<Result<Accepted, Status>>;

/// One that nobody carries yet.
pub struct Waiting {
    pub socket: TcpStream,
    pub permit: OwnedSemaphorePermit,
}

impl Waiting {
    fn reset(self) {
        let _ = self.socket.set_zero_linger();
    }
}

/// How a listener learns where a connection was going.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Redirected {
    ByTheKernel,
    /// By nobody: it goes where it was accepted. For tests.
    Not,
}

#[derive(Clone)]
pub struct Outgoing {
    listeners: Arc<Vec<TcpListener>>,
    names: Arc<Mutex<Names>>,
    range: Range,
    redirected: Redirected,
    room: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u64, Waiting>,
    last: u64,
    accepting: Option<JoinHandle<()>>,
}

impl Outgoing {
    pub fn new(range: Range, redirected: Redirected) -> Self {
        Self {
            listeners: Arc::default(),
            names: Arc::default(),
            range,
            redirected,
            room: Arc::new(Semaphore::new(MAX_OUTGOING)),
            state: Arc::default(),
        }
    }

    /// Listens for connections at each of the addresses, and for questions; where one cannot be had, that is logged.
    pub async fn open(&mut self, connections: &[SocketAddr], questions: &[SocketAddr]) {
        let mut listeners = Vec::new();
        for address in connections {
            match listen(*address) {
                Ok(listener) => listeners.push(listener),
                Err(error) => log::error(&format!("connections at {address}: {error}")),
            }
        }
        self.listeners = Arc::new(listeners);
        let server = NameServer::new(self.names.clone(), self.range);
        for address in questions {
            if let Err(error) = server.start(*address).await {
                log::error(&format!("name server at {address}: {error}"));
            }
        }
    }

    /// Announces from now on, in the place of whoever was told before.
    pub fn accept(&self, told: Announcements) {
        let mut state = self.lock();
        if let Some(earlier) = state.accepting.take() {
            earlier.abort();
        }
        reset_waiting(&mut state);
        state.accepting = Some(tokio::spawn(self.clone().serve(told)));
    }

    pub fn take(&self, connection: u64) -> Option<Waiting> {
        self.lock().waiting.remove(&connection)
    }

    /// Resets all that nobody carries, also what was not accepted yet: it was opened in another life.
    pub fn reset_all(&self) {
        reset_waiting(&mut self.lock());
        for listener in self.listeners.iter() {
            // Not by the runtime, which tells of each change only whom it told last.
            while accept_to_reset(listener.as_raw_fd()).is_ok() {}
        }
    }

    async fn serve(self, told: Announcements) {
        tokio::select! {
            () = self.announce(&told) => {}
            () = told.closed() => {}
        }
        reset_waiting(&mut self.lock());
    }

    async fn announce(&self, told: &Announcements) {
        loop {
            let Ok(permit) = self.room.clone().acquire_owned().await else { return };
            let socket = match self.next().await {
                Ok(socket) => socket,
                Err(error) => {
                    pause("a connection", &error).await;
                    continue;
                }
            };
            let Some((host, port)) = self.destination(&socket) else {
                let _ = socket.set_zero_linger();
                continue;
            };
            let connection = {
                let mut state = self.lock();
                state.last += 1;
                let last = state.last;
                state.waiting.insert(last, Waiting { socket, permit });
                last
            };
            if told.send(Ok(Accepted { connection, host, port: port.into() })).await.is_err() {
                return;
            }
        }
    }

    async fn next(&self) -> io::Result<TcpStream> {
        std::future::poll_fn(|context| {
            for listener in self.listeners.iter() {
                if let std::task::Poll::Ready(accepted) = listener.poll_accept(context) {
                    return std::task::Poll::Ready(accepted.map(|(socket, _)| socket));
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// As the program named it. None: an address that stands for nothing, or none that leads anywhere.
    fn destination(&self, socket: &TcpStream) -> Option<(String, u16)> {
        socket.set_nodelay(true).ok()?;
        let own = socket.local_addr().ok()?;
        let asked = match self.redirected {
            Redirected::ByTheKernel => destination::original(socket, own).ok().flatten()?,
            Redirected::Not => own,
        };
        let host = match self.range.index(asked.ip()) {
            Some(index) => {
                let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
                names.name_at(index)?.to_string()
            }
            None => asked.ip().to_string(),
        };
        Some((host, asked.port()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reset_waiting(state: &mut State) {
    for (_, waiting) in state.waiting.drain() {
        waiting.reset();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn accept_to_reset(listener: RawFd) -> io::Result<()> {
    let none = std::ptr::null_mut();
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let socket = unsafe { OwnedFd::from_raw_fd(check(libc::accept4(listener, none, std::ptr::null_mut(), flags))?) };
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = size_of::<libc::linger>() as libc::socklen_t;
    let value = (&raw const linger).cast();
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, length) }).map(drop)
}
