//! What a process is given to read. Bytes are counted, so that a host that doesn't know whether it was heard can repeat itself.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use crate::contract::Pty;
use crate::errno::{self, check};

use super::channel::{Channel, is_transient};

/// For a process that doesn't read.
const WAIT_LIMIT: Duration = Duration::from_secs(5);
const WRITE_MAX_BYTES: usize = 128 << 10;

pub struct Input {
    /// Whether it ever had any.
    is_open: bool,
    /// None once it was closed. Held by the one writer.
    sink: Mutex<Option<Sink>>,
    terminal: std::sync::Mutex<Option<Channel>>,
    accepted: AtomicU64,
}

pub enum Sink {
    Pipe(Channel),
    Terminal(Channel),
}

impl Input {
    pub fn new(sink: Option<Sink>) -> Self {
        let terminal = match &sink {
            Some(Sink::Terminal(master)) => Some(master.clone()),
            _ => None,
        };
        Self {
            is_open: sink.is_some(),
            sink: Mutex::new(sink),
            terminal: std::sync::Mutex::new(terminal),
            accepted: AtomicU64::new(0),
        }
    }

    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Returns how many bytes were taken in all. What was taken stays taken, also when the caller goes away meanwhile.
    pub async fn write(&self, offset: Option<u64>, data: &[u8], eof: bool) -> Result<u64, Status> {
        if data.len() > WRITE_MAX_BYTES {
            return Err(Status::invalid_argument(format!("data: at most {WRITE_MAX_BYTES} bytes")));
        }
        if !self.is_open {
            return Err(closed());
        }
        let deadline = Instant::now() + WAIT_LIMIT;
        let Ok(mut sink) = timeout_at(deadline, self.sink.lock()).await else { return Ok(self.accepted()) };
        let start = offset.unwrap_or_else(|| self.accepted());
        let end = start.checked_add(data.len() as u64).ok_or_else(|| Status::out_of_range("offset"))?;
        if start > self.accepted() {
            return Err(Status::out_of_range(format!("offset {start}: only {} bytes were taken", self.accepted())));
        }
        while self.accepted() < end {
            let channel = sink.as_ref().map(Sink::channel).ok_or_else(closed)?;
            let rest = &data[(self.accepted() - start) as usize..];
            match channel.write(rest) {
                Ok(length) => {
                    self.accepted.fetch_add(length as u64, Ordering::Relaxed);
                }
                Err(e) if is_transient(&e) => {
                    if timeout_at(deadline, channel.writable()).await.is_err() {
                        return Ok(self.accepted());
                    }
                }
                Err(_) => {
                    *sink = None;
                    return Err(closed());
                }
            }
        }
        if eof {
            if let Some(Sink::Terminal(master)) = sink.as_ref() {
                hang_up(master).map_err(|e| errno::status(&e, "hang up"))?;
            }
            *sink = None;
        }
        Ok(self.accepted())
    }

    /// Nobody reads it any more.
    pub async fn close(&self) {
        *self.sink.lock().await = None;
        *self.terminal() = None;
    }

    pub fn resize(&self, size: &Pty) -> Result<(), Status> {
        match self.terminal().as_ref() {
            Some(master) => set_size(master.fd(), size).map_err(|e| errno::status(&e, "resize")),
            None => Err(Status::failed_precondition("the process has no terminal (any more)")),
        }
    }

    fn terminal(&self) -> std::sync::MutexGuard<'_, Option<Channel>> {
        self.terminal.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Sink {
    fn channel(&self) -> &Channel {
        match self {
            Self::Pipe(channel) | Self::Terminal(channel) => channel,
        }
    }
}

fn closed() -> Status {
    Status::failed_precondition("the process takes no input (any more)")
}

pub fn set_size(master: impl AsFd, size: &Pty) -> io::Result<()> {
    let narrow = |length: u32| u16::try_from(length).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
    let (ws_row, ws_col) = (narrow(size.rows)?, narrow(size.cols)?);
    let size = libc::winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
    check(unsafe { libc::ioctl(master.as_fd().as_raw_fd(), libc::TIOCSWINSZ, &size) }).map(drop)
}

/// The other end of a terminal.
pub fn peer(master: impl AsFd) -> io::Result<OwnedFd> {
    const TIOCGPTPEER: libc::c_ulong = 0x5441;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    let fd = check(unsafe { libc::ioctl(master.as_fd().as_raw_fd(), TIOCGPTPEER as _, flags) })?;
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// As a modem that loses its line: SIGHUP for the session, and an end of file for all that have the terminal open.
fn hang_up(master: &Channel) -> io::Result<()> {
    const TIOCVHANGUP: libc::c_ulong = 0x5437;
    let peer = peer(master.fd())?;
    check(unsafe { libc::ioctl(peer.as_raw_fd(), TIOCVHANGUP as _) }).map(drop)
}
