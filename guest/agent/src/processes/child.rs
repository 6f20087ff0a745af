//! The child between clone and exec. It is in the memory of the agent, not in a copy, on a stack of its own: to copy the agent's page
//! tables, and then each page that either writes to, was a tenth of what a command costs without KVM. Unlike after a vfork the agent
//! goes on meanwhile: a working directory that never answers holds up its command and nobody else.
//!
//! So three rules. The child makes system calls and nothing else, without the C library, whose `errno` and locks are the agent's. It
//! reads what the agent has put into its `Room` before, and writes to nothing but its stack. And the room is given back only after the
//! pipe of its report has ended: exec and the end of a process both let go of the memory before they close their descriptors.
//!
//! Nobody else sees that memory through it: as soon as the child is another user, the kernel lets only root look into it.

use std::arch::asm;
use std::ffi::{CString, c_char, c_int, c_long};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use super::command::Command;
use super::spawn::Step;

const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// As after a login: programs that scan all descriptors up to the soft limit stay fast, others may raise it.
const FILES_SOFT: u64 = 1024;
const FILES_HARD: u64 = 524_288;

/// The child calls a few functions deep. What lies above is not touched, and takes no memory.
const STACK_BYTES: usize = 64 << 10;

/// The child's descriptors, under the numbers of the agent.
pub struct Descriptors {
    pub proc: RawFd,
    pub stdin: RawFd,
    pub stdout: RawFd,
    pub stderr: RawFd,
    pub report: RawFd,
}

/// What the child reads, all of it made before it is, and where it works.
pub struct Room {
    command: Command,
    programs: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    descriptors: Descriptors,
    is_terminal: bool,
    switch_user: bool,
    stack: Box<[MaybeUninit<Aligned>]>,
}

#[repr(align(16))]
struct Aligned(#[allow(dead_code)] [u8; 16]);

// SAFETY: the pointers lead into `command`, which the room owns and nobody changes.
unsafe impl Send for Room {}

impl Room {
    pub fn new(command: Command, descriptors: Descriptors, is_terminal: bool, switch_user: bool) -> Box<Self> {
        let (programs, argv, env) = (pointers(&command.programs), pointers(&command.argv), pointers(&command.env));
        let stack = Box::new_uninit_slice(STACK_BYTES / size_of::<Aligned>());
        Box::new(Self { command, programs, argv, env, descriptors, is_terminal, switch_user, stack })
    }

    /// The pid. The room must stay until the report has ended.
    pub fn start(&mut self, cgroup: Option<BorrowedFd>) -> io::Result<i32> {
        let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
        args.flags = libc::CLONE_VM as u64 | CLONE_CLEAR_SIGHAND;
        args.exit_signal = libc::SIGCHLD as u64;
        args.stack = self.stack.as_mut_ptr() as u64;
        args.stack_size = STACK_BYTES as u64;
        if let Some(directory) = cgroup {
            args.flags |= CLONE_INTO_CGROUP;
            args.cgroup = directory.as_raw_fd() as u64;
        }
        let pid: c_long;
        // SAFETY: for the agent this is a system call. The child comes out of it with the same registers on an empty stack, and goes
        // to where it never returns from.
        unsafe {
            asm!(
                "syscall",
                "test rax, rax",
                "jnz 2f",
                "xor ebp, ebp",
                "mov rdi, rdx",
                "call {enter}",
                "ud2",
                "2:",
                enter = sym enter,
                inlateout("rax") libc::SYS_clone3 => pid,
                in("rdi") &args,
                in("rsi") size_of::<libc::clone_args>(),
                in("rdx") ptr::from_ref(self),
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        if pid < 0 { Err(io::Error::from_raw_os_error(-pid as i32)) } else { Ok(pid as i32) }
    }

    /// In the child. Returns only when something failed.
    unsafe fn run(&self) -> (Step, c_int) {
        unsafe {
            if let Err(errno) = self.prepare() {
                return (Step::Prepare, errno);
            }
            if let Err(errno) = self.become_user() {
                return (Step::Credentials, errno);
            }
            if let Err(errno) = call(libc::SYS_chdir, [self.command.cwd.as_ptr() as usize, 0, 0, 0]) {
                return (Step::Cwd, errno);
            }
            (Step::Exec, self.exec())
        }
    }

    unsafe fn prepare(&self) -> Result<(), c_int> {
        let Descriptors { proc, stdin, stdout, stderr, .. } = self.descriptors;
        // As the kernel has it: handler, flags, restorer, mask. By default, and none.
        let (default, no_signals) = ([0u64; 4], 0u64);
        let files = [FILES_SOFT, FILES_HARD];
        // Cgroups bound the number of processes, each command's for itself. This would bound it per user, all together.
        let unlimited = [u64::MAX; 2];
        unsafe {
            let _ = call(libc::SYS_rt_sigaction, [libc::SIGPIPE as usize, address(&default), 0, size_of::<u64>()]);
            let _ = call(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as usize, address(&files), 0]);
            let _ = call(libc::SYS_prlimit64, [0, libc::RLIMIT_NPROC as usize, address(&unlimited), 0]);
            // Whatever has no close-on-exec flag by some oversight.
            let _ = call(libc::SYS_close_range, [3, u32::MAX as usize, libc::CLOSE_RANGE_CLOEXEC as usize, 0]);
            be_ordinary_to_the_oom_killer(proc);
            let mask = [libc::SIG_SETMASK as usize, address(&no_signals), 0, size_of::<u64>()];
            call(libc::SYS_rt_sigprocmask, mask)?;
            call(libc::SYS_setsid, [0; 4])?;
            if self.is_terminal {
                call(libc::SYS_ioctl, [stdin as usize, libc::TIOCSCTTY as usize, 0, 0])?;
            }
            call(libc::SYS_dup2, [stdin as usize, 0, 0, 0])?;
            call(libc::SYS_dup2, [stdout as usize, 1, 0, 0])?;
            call(libc::SYS_dup2, [stderr as usize, 2, 0, 0])?;
        }
        Ok(())
    }

    unsafe fn become_user(&self) -> Result<(), c_int> {
        if !self.switch_user {
            return Ok(());
        }
        let user = &self.command.user;
        let (uid, gid) = (user.uid as usize, user.gid as usize);
        unsafe {
            call(libc::SYS_setgroups, [user.groups.len(), user.groups.as_ptr() as usize, 0, 0])?;
            call(libc::SYS_setresgid, [gid, gid, gid, 0])?;
            call(libc::SYS_setresuid, [uid, uid, uid, 0])?;
        }
        Ok(())
    }

    /// Tries each place as a shell does: one that is missing or forbidden doesn't end the search, anything else does.
    unsafe fn exec(&self) -> c_int {
        let mut denied = false;
        let (argv, env) = (self.argv.as_ptr() as usize, self.env.as_ptr() as usize);
        for program in self.programs.iter().take_while(|program| !program.is_null()) {
            match unsafe { call(libc::SYS_execve, [*program as usize, argv, env, 0]) } {
                Err(libc::ENOENT | libc::ENOTDIR) | Ok(_) => {}
                Err(libc::EACCES) => denied = true,
                Err(other) => return other,
            }
        }
        if denied { libc::EACCES } else { libc::ENOENT }
    }
}

/// Where the child begins.
unsafe extern "C" fn enter(room: *const Room) -> ! {
    unsafe {
        let (step, errno) = (*room).run();
        let [a, b, c, d] = errno.to_ne_bytes();
        let report: [u8; Step::REPORT_BYTES] = [step as u8, a, b, c, d];
        let _ = call(libc::SYS_write, [(*room).descriptors.report as usize, address(&report), report.len(), 0]);
        loop {
            let _ = call(libc::SYS_exit_group, [127, 0, 0, 0]);
        }
    }
}

/// The agent is process 1, whose own score the kernel leaves as it is, although they share their memory.
unsafe fn be_ordinary_to_the_oom_killer(proc: RawFd) {
    let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
    unsafe {
        if let Ok(fd) = call(libc::SYS_openat, [proc as usize, c"self/oom_score_adj".as_ptr() as usize, flags, 0]) {
            let _ = call(libc::SYS_write, [fd, c"0".as_ptr() as usize, 1, 0]);
        }
    }
}

/// A system call as the kernel has it, or its errno.
unsafe fn call(number: c_long, [a, b, c, d]: [usize; 4]) -> Result<usize, c_int> {
    let result: isize;
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if result < 0 { Err(-result as c_int) } else { Ok(result as usize) }
}

fn address<T>(of: &T) -> usize {
    ptr::from_ref(of) as usize
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}
