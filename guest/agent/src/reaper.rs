//! The one place that calls wait(2). As PID 1 the agent inherits every orphan of the guest; a second waiter anywhere would
//! steal exit codes. Exit statuses of the agent's own children go to whoever adopted them, all others are dropped.
//!
//! Invariant: everything here runs on the runtime's one thread, and a pid is in `children` exactly as long as its zombie
//! has not been collected. So a pid found there can be signalled without hitting a stranger that got the same number.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::descriptor::watch;
use crate::errno::check;
use crate::log;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Code(u32),
    Signal(u32),
}

/// None while the child lives.
pub type Leader = watch::Receiver<Option<Ended>>;

type Children = HashMap<i32, watch::Sender<Option<Ended>>>;

#[derive(Clone)]
pub struct Reaper {
    children: Arc<Mutex<Children>>,
}

impl Reaper {
    /// Must be called on the runtime before any thread or child is started: the signal mask is inherited.
    pub fn start() -> io::Result<Self> {
        let signals = watch(child_signals()?, Interest::READABLE)?;
        let reaper = Self { children: Arc::default() };
        let running = reaper.clone();
        tokio::spawn(async move {
            if let Err(error) = running.run(&signals).await {
                log::error(&format!("reaper stopped: {error}"));
            }
        });
        Ok(reaper)
    }

    /// Has the exit status of a child kept for the caller. Call it before anything is awaited after the child's start.
    pub fn adopt(&self, pid: i32) -> Leader {
        let (sender, receiver) = watch::channel(None);
        self.lock().insert(pid, sender);
        receiver
    }

    /// Signals a child; ESRCH when it has been collected.
    pub fn signal(&self, pid: i32, signal: i32) -> io::Result<()> {
        let children = self.lock();
        if !children.contains_key(&pid) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        check(unsafe { libc::kill(pid, signal) }).map(drop)
    }

    async fn run(&self, signals: &AsyncFd<OwnedFd>) -> io::Result<()> {
        loop {
            self.collect();
            let mut ready = signals.readable().await?;
            let mut buffer = [0u8; 16 * size_of::<libc::signalfd_siginfo>()];
            let read = unsafe { libc::read(signals.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
            if read < 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
                ready.clear_ready();
            }
        }
    }

    /// Signals coalesce, so each one means: collect all that have ended.
    fn collect(&self) {
        loop {
            let mut status = 0;
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG | libc::__WALL) };
            if pid <= 0 {
                return;
            }
            let ended = if libc::WIFEXITED(status) {
                Ended::Code(libc::WEXITSTATUS(status) as u32)
            } else if libc::WIFSIGNALED(status) {
                Ended::Signal(libc::WTERMSIG(status) as u32)
            } else {
                continue;
            };
            if let Some(child) = self.lock().remove(&pid) {
                child.send_replace(Some(ended));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn child_signals() -> io::Result<OwnedFd> {
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        check(libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()))?;
        let fd = check(libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}
