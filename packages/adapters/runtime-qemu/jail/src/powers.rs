//! What the VMM may do and use up: no capability in any set, no way to gain one, and limits on everything countable.

use std::io::{Error, Result};

use crate::check;
use crate::plan::Plan;

const OPEN_FILES: u64 = 256;
const LOCKED_BYTES: u64 = 64 * 1024;
/// From linux/securebits.h, each with its lock: root's id gives no capabilities, none is kept over a change of user,
/// and none can become ambient.
const SECURE_BITS: libc::c_ulong = 0b11 | 0b10_0000 | 0b1100_0000;
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Descriptors that whoever started us left open.
pub fn close_inherited() {
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

pub fn limit(plan: &Plan) -> Result<()> {
    let limits = [
        // A core file would hold the guest's memory.
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, OPEN_FILES),
        (libc::RLIMIT_NPROC, plan.threads),
        (libc::RLIMIT_FSIZE, plan.file_bytes),
        (libc::RLIMIT_MEMLOCK, LOCKED_BYTES),
        (libc::RLIMIT_MSGQUEUE, 0),
        (libc::RLIMIT_NICE, 0),
        (libc::RLIMIT_RTPRIO, 0),
        (libc::RLIMIT_SIGPENDING, plan.threads),
    ];
    for (resource, value) in limits {
        let both = libc::rlimit { rlim_cur: value, rlim_max: value };
        check("setrlimit", unsafe { libc::setrlimit(resource, &both) })?;
    }
    Ok(())
}

/// The user and these groups, without any capability, for ever.
pub fn drop_all(id: libc::uid_t, groups: &[libc::gid_t]) -> Result<()> {
    for capability in 0.. {
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } < 0 {
            let error = Error::last_os_error();
            // The first number that the kernel does not know.
            if error.raw_os_error() == Some(libc::EINVAL) {
                break;
            }
            return Err(error);
        }
    }
    check("prctl", unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECURE_BITS, 0, 0, 0) })?;
    check("setgroups", unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    check("setresgid", unsafe { libc::setresgid(id, id, id) })?;
    check("setresuid", unsafe { libc::setresuid(id, id, id) })?;
    let header = [CAPABILITY_VERSION, 0];
    let none = [0_u32; 6];
    let cleared = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    check("capset", cleared as libc::c_int)?;
    check("prctl", unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}
