//! From root to next to nothing: no user that owns anything, no group, no capability but that to lock memory, and no way back.

use std::io;

/// Aborted before a byte is written, into a file (it would be longer) as into a pipe, where the kernel takes 1 for just that.
const NO_CORE: libc::rlim_t = 1;
const PR_SET_IO_FLUSHER: libc::c_int = 57;
const CAP_IPC_LOCK: u32 = 14;
const CAPABILITY_VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityWord {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// To be called again after each change of user, which undoes it.
pub fn forbid_dumps() -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: NO_CORE, rlim_max: NO_CORE };
    // Where less than that is allowed, less it is.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &limit) } < 0 {
        done(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) })?;
    }
    done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) })
}

pub fn drop_to(uid: u32) -> io::Result<()> {
    // Has the kernel find memory for us without writing to us. It needs a capability that not every host gives; the memory
    // that serving takes is there without it.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    done(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1) })?;
    done(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    done(unsafe { libc::setresgid(uid, uid, uid) })?;
    done(unsafe { libc::setresuid(uid, uid, uid) })?;
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let mut words = [CapabilityWord::default(); 2];
    words[0].effective = 1 << CAP_IPC_LOCK;
    words[0].permitted = 1 << CAP_IPC_LOCK;
    done(unsafe { libc::syscall(libc::SYS_capset, &header, words.as_ptr()) } as libc::c_int)?;
    forbid_dumps()
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
