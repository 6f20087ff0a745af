//! What the kernel still does for us: reading and writing of what is open, memory, threads. Nothing can be opened, connected,
//! started or signalled, so whoever takes over this process has what it has open and no more.

use std::io;

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// `struct seccomp_data`: number, architecture, …
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

const ALLOWED: [libc::c_long; 44] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_fdatasync,
    libc::SYS_fallocate,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_geteuid,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// For this thread and those that it starts. Anything else fails, as if it were not permitted.
pub fn confine() -> io::Result<()> {
    let program = program();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let (mode, pointer) = (libc::SECCOMP_MODE_FILTER, &raw const filter);
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, pointer, 0, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn program() -> Vec<libc::sock_filter> {
    let count = ALLOWED.len() as u8;
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut out =
        vec![step(load, 0, 0, ARCHITECTURE), step(is, 0, count + 1, AUDIT_ARCH_X86_64), step(load, 0, 0, NUMBER)];
    // Each jumps over those after it and over the refusal.
    out.extend(ALLOWED.iter().zip((1..=count).rev()).map(|(number, left)| step(is, left, 0, *number as u32)));
    out.push(step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    out.push(step(answer, 0, 0, libc::SECCOMP_RET_ALLOW));
    out
}

const fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, which ends with the test.
    #[test]
    fn nothing_can_be_opened_or_signalled_any_more() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        let confined = move || {
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
            confine().unwrap();
            let opened = std::fs::File::open("/proc/self/stat").unwrap_err().raw_os_error();
            let signalled = unsafe { libc::kill(libc::getpid(), 0) };
            let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
            (opened, signalled, socket, file.metadata().is_ok())
        };
        let outcome = std::thread::spawn(confined).join().unwrap();
        assert_eq!(outcome, (Some(libc::EPERM), -1, -1, true));
    }
}
