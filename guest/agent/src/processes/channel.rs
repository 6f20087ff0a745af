//! Our end of a pipe or a terminal, used without ever blocking the agent.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::descriptor::watch;
use crate::errno::check;

#[derive(Clone)]
pub struct Channel {
    fd: Arc<AsyncFd<OwnedFd>>,
}

impl Channel {
    pub fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
        Ok(Self { fd: Arc::new(watch(fd, interest)?) })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.get_ref().as_fd()
    }

    pub async fn readable(&self) -> io::Result<()> {
        self.fd.readable().await.map(|mut ready| ready.retain_ready())
    }

    pub async fn writable(&self) -> io::Result<()> {
        self.fd.writable().await.map(|mut ready| ready.retain_ready())
    }

    /// After `WouldBlock`, `readable` waits for news.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd.try_io(Interest::READABLE, |fd| read(fd, buffer))
    }

    /// Straight from the kernel: the runtime may not have heard yet that there is something to read.
    pub fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        read(self.fd.get_ref(), buffer)
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.fd.try_io(Interest::WRITABLE, |fd| {
            check(unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
                .map(|length| length as usize)
        })
    }

    /// Bytes that can be read now.
    pub fn unread(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        if unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::FIONREAD, &mut bytes) } < 0 { 0 } else { bytes as usize }
    }
}

pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn read(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    check(unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) }).map(|length| length as usize)
}
