//! Which system calls the VMM is refused, beside those that its own filter (`-sandbox`) denies: what no VMM needs and
//! what reaches far into the kernel. Whatever is not named is allowed: a list of what QEMU, its C library and the next
//! build of both need would break guests, and the namespaces hold without it.

use std::io::Result;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, c_long, sock_filter,
};

use crate::check;

const ARCHITECTURE_X86_64: u32 = 0xc000_003e;
const X32: u32 = 0x4000_0000;
/// Offsets in `struct seccomp_data`; of arguments, the low half.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const THIRD_ARGUMENT: u32 = 32;
const NEW_NAMESPACES: u32 = 0x7e02_0080;

const REFUSED: &[c_long] = &[
    // Large interfaces into the kernel.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_personality,
    libc::SYS_modify_ldt,
    libc::SYS_memfd_secret,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces, mounts and files without a path.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknod,
    libc::SYS_mknodat,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

pub fn install() -> Result<()> {
    let mut program = program();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter, 0, 0) };
    check("seccomp", result).map(drop)
}

fn program() -> Vec<sock_filter> {
    let mut steps = vec![
        load(ARCHITECTURE),
        when(BPF_JEQ, ARCHITECTURE_X86_64, 1, 0),
        end(SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
        when(BPF_JGE, X32, 0, 1),
        end(SECCOMP_RET_KILL_PROCESS),
        // The C library falls back to clone, whose flags can be read.
        when(BPF_JEQ, libc::SYS_clone3 as u32, 0, 1),
        end(refusal(libc::ENOSYS)),
        // Vsock and the like are not held by the network namespace.
        when(BPF_JEQ, libc::SYS_socket as u32, 0, 4),
        load(FIRST_ARGUMENT),
        when(BPF_JEQ, libc::AF_UNIX as u32, 0, 1),
        end(SECCOMP_RET_ALLOW),
        end(refusal(libc::EAFNOSUPPORT)),
        when(BPF_JEQ, libc::SYS_clone as u32, 0, 5),
        load(FIRST_ARGUMENT),
        step(BPF_ALU | BPF_AND | BPF_K, NEW_NAMESPACES, 0, 0),
        when(BPF_JEQ, 0, 0, 1),
        end(SECCOMP_RET_ALLOW),
        end(refusal(libc::EPERM)),
        // QEMU asks for huge pages behind the guest's memory. That memory is a file, and then each first touch of a page
        // reads two to four megabytes of it, while the guest stands still.
        when(BPF_JEQ, libc::SYS_madvise as u32, 0, 4),
        load(THIRD_ARGUMENT),
        when(BPF_JEQ, libc::MADV_HUGEPAGE as u32, 0, 1),
        end(refusal(libc::EINVAL)),
        end(SECCOMP_RET_ALLOW),
    ];
    for number in REFUSED {
        steps.push(when(BPF_JEQ, *number as u32, 0, 1));
        steps.push(end(refusal(libc::EPERM)));
    }
    steps.push(end(SECCOMP_RET_ALLOW));
    steps
}

fn load(offset: u32) -> sock_filter {
    step(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0)
}

/// How many steps to skip when the comparison holds, and when not.
fn when(comparison: u32, value: u32, holds: u8, fails: u8) -> sock_filter {
    step(BPF_JMP | comparison | BPF_K, value, holds, fails)
}

fn end(verdict: u32) -> sock_filter {
    step(BPF_RET | BPF_K, verdict, 0, 0)
}

fn refusal(errno: libc::c_int) -> u32 {
    SECCOMP_RET_ERRNO | errno as u32
}

fn step(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}
