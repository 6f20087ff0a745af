//! Starts a program: its streams, and a child that is cloned straight into its cgroup and goes on to exec (`child.rs`).
//!
//! The child tells why it could not start through a pipe that closes at exec: (step, errno), or nothing when all went well.
//! It is read asynchronously, since a child in a frozen cgroup gets to exec only after the thaw.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use tokio::io::Interest;

use crate::errno::check;

use super::channel::Channel;
use super::child::{Descriptors, Room};
use super::command::{Command, Stdio};
use super::input::{self, Sink};

/// What every child needs, opened before any user code ran.
pub struct Anchors {
    null: File,
    proc: File,
    /// Where terminals come from.
    terminals: Option<File>,
}

impl Anchors {
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            null: File::options().read(true).write(true).open("/dev/null")?,
            proc: File::open("/proc")?,
            terminals: File::open("/dev/pts").ok(),
        })
    }
}

pub struct Spawned {
    pub pid: i32,
    pub stdin: Option<Sink>,
    pub stdout: Channel,
    /// A terminal has none.
    pub stderr: Option<Channel>,
    pub child: Child,
}

/// A child until it is known whether it got to exec. Dropped before, it keeps its room: it may be at work there.
pub struct Child {
    report: OwnedFd,
    room: ManuallyDrop<Box<Room>>,
}

impl Spawned {
    pub fn is_terminal(&self) -> bool {
        matches!(self.stdin, Some(Sink::Terminal(_)))
    }
}

/// The streams of a child, its ends and ours.
struct Streams {
    /// None: /dev/null.
    child_stdin: Option<OwnedFd>,
    child_stdout: OwnedFd,
    child_stderr: OwnedFd,
    stdin: Option<Sink>,
    stdout: Channel,
    stderr: Option<Channel>,
}

impl Streams {
    fn open(command: &Command, anchors: &Anchors) -> io::Result<Self> {
        match &command.stdio {
            Stdio::Pipes { stdin } => {
                let (stdout, child_stdout) = pipe()?;
                let (stderr, child_stderr) = pipe()?;
                let (child_stdin, stdin) =
                    if *stdin { pipe().map(|(child, own)| (Some(child), Some(own)))? } else { (None, None) };
                let sink = |own| Channel::new(own, Interest::WRITABLE).map(Sink::Pipe);
                Ok(Self {
                    child_stdin,
                    child_stdout,
                    child_stderr,
                    stdin: stdin.map(sink).transpose()?,
                    stdout: Channel::new(stdout, Interest::READABLE)?,
                    stderr: Some(Channel::new(stderr, Interest::READABLE)?),
                })
            }
            Stdio::Terminal(size) => {
                let (master, slave) = terminal(anchors, command.user.uid)?;
                input::set_size(&master, size)?;
                let master = Channel::new(master, Interest::READABLE | Interest::WRITABLE)?;
                Ok(Self {
                    child_stdin: Some(slave.try_clone()?),
                    child_stdout: slave.try_clone()?,
                    child_stderr: slave,
                    stdin: Some(Sink::Terminal(master.clone())),
                    stdout: master,
                    stderr: None,
                })
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Prepare,
    Credentials,
    Cwd,
    Exec,
}

impl Step {
    pub const REPORT_BYTES: usize = 5;

    /// None: the report is empty, so exec has taken place.
    pub fn parse(report: &[u8]) -> Option<(Self, i32)> {
        let (step, errno) = report.split_first()?;
        let step = match step {
            1 => Self::Credentials,
            2 => Self::Cwd,
            3 => Self::Exec,
            _ => Self::Prepare,
        };
        let errno = errno.try_into().map_or(libc::EIO, i32::from_ne_bytes);
        Some((step, errno))
    }
}

pub fn spawn(command: Command, cgroup: Option<BorrowedFd>, anchors: &Anchors) -> io::Result<Spawned> {
    let streams = Streams::open(&command, anchors)?;
    let (report, report_child) = pipe()?;
    let descriptors = Descriptors {
        proc: anchors.proc.as_raw_fd(),
        stdin: streams.child_stdin.as_ref().map_or(anchors.null.as_raw_fd(), AsRawFd::as_raw_fd),
        stdout: streams.child_stdout.as_raw_fd(),
        stderr: streams.child_stderr.as_raw_fd(),
        report: report_child.as_raw_fd(),
    };
    // An agent that is not root can only run programs as itself.
    let own = unsafe { libc::geteuid() };
    let switch_user = own == 0 || command.user.uid != own;
    let is_terminal = matches!(command.stdio, Stdio::Terminal(_));
    let mut room = Room::new(command, descriptors, is_terminal, switch_user);
    let pid = room.start(cgroup)?;
    let Streams { stdin, stdout, stderr, .. } = streams;
    Ok(Spawned { pid, stdin, stdout, stderr, child: Child { report, room: ManuallyDrop::new(room) } })
}

/// The step that failed and its errno; None when the program runs.
pub async fn exec_failure(child: Child) -> io::Result<Option<(Step, i32)>> {
    let Child { report, room } = child;
    let mut report = tokio::net::unix::pipe::Receiver::from_owned_fd(report)?;
    let mut bytes = Vec::with_capacity(Step::REPORT_BYTES);
    tokio::io::AsyncReadExt::read_to_end(&mut report, &mut bytes).await?;
    // The pipe has ended: the child has left.
    drop(ManuallyDrop::into_inner(room));
    Ok(Step::parse(&bytes))
}

/// (master, slave) of a new terminal, which belongs to the user.
fn terminal(anchors: &Anchors, uid: u32) -> io::Result<(OwnedFd, OwnedFd)> {
    let directory = anchors.terminals.as_ref().ok_or(io::Error::from_raw_os_error(libc::ENODEV))?;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    let master = check(unsafe { libc::openat(directory.as_raw_fd(), c"ptmx".as_ptr(), flags) })?;
    let master = unsafe { OwnedFd::from_raw_fd(master) };
    let unlocked: libc::c_int = 0;
    check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &unlocked) })?;
    let slave = input::peer(&master)?;
    // An agent that is not root runs programs as itself.
    if unsafe { libc::geteuid() } == 0 {
        check(unsafe { libc::fchown(slave.as_raw_fd(), uid, libc::gid_t::MAX) })?;
    }
    Ok((master, slave))
}

/// (read end, write end), closed on exec.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}
