//! Starts a program: clone3 straight into its cgroup, then exec. Between the two the child shares nothing with the agent but
//! a copy of its memory; other threads of the agent may have held any lock at that moment. So the child makes only system
//! calls, on memory that the parent has prepared, and the credential calls are raw ones: the C library's would try to
//! change threads that the child doesn't have.
//!
//! The child tells why it could not start through a pipe that closes at exec: (step, errno), or nothing when all went well.
//! It is read asynchronously, since a child in a frozen cgroup gets to exec only after the thaw.

use std::ffi::{CString, c_char, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use tokio::io::Interest;

use crate::errno::check;

use super::channel::Channel;
use super::command::{Command, Stdio};
use super::input::{self, Sink};

const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// As after a login: programs that scan all descriptors up to the soft limit stay fast, others may raise it.
const FILES_SOFT: u64 = 1024;
const FILES_HARD: u64 = 524_288;

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
    pub report: OwnedFd,
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

pub fn spawn(command: &Command, cgroup: Option<BorrowedFd>, anchors: &Anchors) -> io::Result<Spawned> {
    let streams = Streams::open(command, anchors)?;
    let (report, report_child) = pipe()?;
    let plan = Plan {
        programs: pointers(&command.programs),
        argv: pointers(&command.argv),
        env: pointers(&command.env),
        command,
        proc: anchors.proc.as_raw_fd(),
        stdin: streams.child_stdin.as_ref().map_or(anchors.null.as_raw_fd(), AsRawFd::as_raw_fd),
        stdout: streams.child_stdout.as_raw_fd(),
        stderr: streams.child_stderr.as_raw_fd(),
        is_terminal: matches!(command.stdio, Stdio::Terminal(_)),
        report: report_child.as_raw_fd(),
        // An agent that is not root can only run programs as itself.
        switch_user: unsafe { libc::geteuid() } == 0 || command.user.uid != unsafe { libc::geteuid() },
    };
    let pid = check(unsafe { clone_into(cgroup) })? as i32;
    if pid == 0 {
        let (step, errno) = unsafe { plan.run() };
        plan.fail(step, errno);
    }
    let Streams { stdin, stdout, stderr, .. } = streams;
    Ok(Spawned { pid, stdin, stdout, stderr, report })
}

/// 0 in the child.
unsafe fn clone_into(cgroup: Option<BorrowedFd>) -> i64 {
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_CLEAR_SIGHAND;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(directory) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = directory.as_raw_fd() as u64;
    }
    unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<libc::clone_args>()) }
}

struct Plan<'a> {
    command: &'a Command,
    programs: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    proc: RawFd,
    stdin: RawFd,
    stdout: RawFd,
    stderr: RawFd,
    is_terminal: bool,
    report: RawFd,
    switch_user: bool,
}

impl Plan<'_> {
    /// In the child. Returns only when something failed.
    unsafe fn run(&self) -> (Step, c_int) {
        unsafe {
            if !self.prepare() {
                return (Step::Prepare, errno());
            }
            if self.switch_user && !self.become_user() {
                return (Step::Credentials, errno());
            }
            if libc::chdir(self.command.cwd.as_ptr()) != 0 {
                return (Step::Cwd, errno());
            }
            (Step::Exec, self.exec())
        }
    }

    unsafe fn prepare(&self) -> bool {
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            let files = libc::rlimit { rlim_cur: FILES_SOFT, rlim_max: FILES_HARD };
            libc::setrlimit(libc::RLIMIT_NOFILE, &files);
            // Cgroups bound the number of processes, each command's for itself. This would bound it per user, all together.
            let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_NPROC, &unlimited);
            // Whatever has no close-on-exec flag by some oversight.
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            self.be_ordinary_to_the_oom_killer();
            libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()) == 0
                && libc::setsid() >= 0
                && (!self.is_terminal || libc::ioctl(self.stdin, libc::TIOCSCTTY, 0) == 0)
                && libc::dup2(self.stdin, 0) == 0
                && libc::dup2(self.stdout, 1) == 1
                && libc::dup2(self.stderr, 2) == 2
        }
    }

    unsafe fn be_ordinary_to_the_oom_killer(&self) {
        unsafe {
            let fd = libc::openat(self.proc, c"self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            libc::write(fd, c"0".as_ptr().cast(), 1);
        }
    }

    unsafe fn become_user(&self) -> bool {
        let user = &self.command.user;
        let (uid, gid) = (user.uid, user.gid);
        unsafe {
            libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()) == 0
                && libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
                && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
        }
    }

    /// Tries each place as a shell does: one that is missing or forbidden doesn't end the search, anything else does.
    unsafe fn exec(&self) -> c_int {
        let mut denied = false;
        for program in &self.programs[..self.programs.len() - 1] {
            unsafe { libc::execve(*program, self.argv.as_ptr(), self.env.as_ptr()) };
            match errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => denied = true,
                other => return other,
            }
        }
        if denied { libc::EACCES } else { libc::ENOENT }
    }

    fn fail(&self, step: Step, errno: c_int) -> ! {
        let mut report = [0; Step::REPORT_BYTES];
        report[0] = step as u8;
        report[1..].copy_from_slice(&errno.to_ne_bytes());
        unsafe {
            libc::write(self.report, report.as_ptr().cast(), report.len());
            libc::_exit(127)
        }
    }
}

/// The step that failed and its errno; None when the program runs.
pub async fn exec_failure(report: OwnedFd) -> io::Result<Option<(Step, i32)>> {
    let mut report = tokio::net::unix::pipe::Receiver::from_owned_fd(report)?;
    let mut bytes = Vec::with_capacity(Step::REPORT_BYTES);
    tokio::io::AsyncReadExt::read_to_end(&mut report, &mut bytes).await?;
    Ok(Step::parse(&bytes))
}

fn errno() -> c_int {
    unsafe { *libc::__errno_location() }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
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
