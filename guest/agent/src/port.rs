//! A virtio-serial port as a byte stream. Such a port has two oddities:
//!
//! - Without a host on the other end it polls as readable, reads as end of file, and goes on later. tokio takes a hang-up
//!   for final and would report readiness for ever. So the port sits in an edge-triggered epoll of its own, and tokio
//!   watches that one, which only ever becomes readable. Every change (bytes, room, host came, host went) is one edge.
//! - The kernel moves at most 32 KiB per write.
//!
//! Invariant: with nothing to do there is no timer and no wake-up, host or not.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::descriptor::watch;
use crate::errno::check;

const PORTS: &str = "/sys/class/virtio-ports";

/// The device of the port that the host has given this name.
pub fn find(name: &str) -> io::Result<PathBuf> {
    for entry in fs::read_dir(PORTS)? {
        let entry = entry?;
        // The name arrives a moment after the port.
        if fs::read_to_string(entry.path().join("name")).is_ok_and(|text| text.trim_end() == name) {
            return Ok(PathBuf::from("/dev").join(entry.file_name()));
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no virtio-serial port named {name:?}")))
}

pub struct Port {
    device: File,
    edges: AsyncFd<OwnedFd>,
}

impl Port {
    pub fn open(device: &Path) -> io::Result<Self> {
        let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(device)?;
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET;
        let mut event = libc::epoll_event { events: events as u32, u64: 0 };
        check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, device.as_raw_fd(), &mut event) })?;
        Ok(Self { device, edges: watch(epoll, Interest::READABLE)? })
    }

    /// Waits until a host has the other end open.
    pub async fn connected(&self) -> io::Result<()> {
        std::future::poll_fn(|context| {
            while !self.has_host()? {
                ready!(self.poll_edge(context))?;
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    fn has_host(&self) -> io::Result<bool> {
        let mut poll = libc::pollfd { fd: self.device.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        check(unsafe { libc::poll(&mut poll, 1, 0) })?;
        if poll.revents & (libc::POLLERR | libc::POLLNVAL) != 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(poll.revents & libc::POLLHUP == 0)
    }

    /// Ready after something has changed since the last call. Both directions are polled by one task, and each tries its
    /// system call first on every poll, so an edge that one of them takes is not lost to the other.
    fn poll_edge(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ready = ready!(self.edges.poll_read_ready(context))?;
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        check(unsafe { libc::epoll_wait(self.edges.as_raw_fd(), &mut event, 1, 0) })?;
        ready.clear_ready();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Port {
    /// End of file means that the host has closed the port; it may come back.
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            match (&self.device).read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(e) if is_transient(&e) => ready!(self.poll_edge(context))?,
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl AsyncWrite for Port {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match (&self.device).write(bytes) {
                Ok(length) => return Poll::Ready(Ok(length)),
                Err(e) if is_transient(&e) => ready!(self.poll_edge(context))?,
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
