//! The mounts of the guest, first in the initramfs and then moved into the root file system.

use std::ffi::CString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::ptr;

use super::BootResult;
use crate::errno::check;
use crate::log;

pub const NEW_ROOT: &str = "/newroot";
pub const CGROUP: &str = "/sys/fs/cgroup";

const QUIET: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

struct Mount {
    kind: &'static str,
    target: &'static str,
    flags: libc::c_ulong,
    options: &'static str,
}

/// Needed to find the disk; moved along to the new root.
const EARLY: &[Mount] = &[
    Mount { kind: "devtmpfs", target: "/dev", flags: libc::MS_NOSUID, options: "mode=755" },
    Mount { kind: "proc", target: "/proc", flags: QUIET, options: "" },
    Mount { kind: "sysfs", target: "/sys", flags: QUIET, options: "" },
    Mount { kind: "tmpfs", target: "/run", flags: libc::MS_NOSUID | libc::MS_NODEV, options: "mode=755" },
];

const LATE: &[Mount] = &[
    Mount {
        kind: "devpts",
        target: "/dev/pts",
        flags: libc::MS_NOSUID | libc::MS_NOEXEC,
        options: "gid=5,mode=620,ptmxmode=666",
    },
    Mount { kind: "tmpfs", target: "/dev/shm", flags: libc::MS_NOSUID | libc::MS_NODEV, options: "mode=1777" },
    Mount { kind: "cgroup2", target: CGROUP, flags: QUIET, options: "" },
];

const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

pub fn early() -> BootResult<()> {
    EARLY.iter().try_for_each(mount)
}

/// Makes the mounted root disk the root, and gives the initramfs back to the kernel: what is left of it is the agent.
pub fn switch_root() -> BootResult<()> {
    for early in EARLY {
        let target = format!("{NEW_ROOT}{}", early.target);
        make_directory(&target)?;
        move_mount(early.target, &target)?;
    }
    for leftover in ["/init", "/modules"] {
        let _ = std::fs::remove_file(leftover).or_else(|_| std::fs::remove_dir_all(leftover));
    }
    std::env::set_current_dir(NEW_ROOT).map_err(|e| format!("{NEW_ROOT}: {e}"))?;
    move_mount(".", "/")?;
    std::os::unix::fs::chroot(".").and_then(|()| std::env::set_current_dir("/")).map_err(|e| format!("chroot: {e}"))
}

pub fn late() -> BootResult<()> {
    LATE.iter().try_for_each(mount)?;
    for (target, link) in LINKS {
        if let Err(e) = symlink(target, link) {
            log::error(&format!("{link}: {e}"));
        }
    }
    Ok(())
}

fn mount(mount: &Mount) -> BootResult<()> {
    make_directory(mount.target)?;
    call(mount.kind, mount.target, Some(mount.kind), mount.flags, mount.options)
        .map_err(|e| format!("mount {}: {e}", mount.target))
}

fn move_mount(from: &str, to: &str) -> BootResult<()> {
    call(from, to, None, libc::MS_MOVE, "").map_err(|e| format!("move {from} to {to}: {e}"))
}

pub fn make_directory(path: &str) -> BootResult<()> {
    if Path::new(path).is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(path).map_err(|e| format!("mkdir {path}: {e}"))
}

pub fn call(source: &str, target: &str, kind: Option<&str>, flags: libc::c_ulong, options: &str) -> io::Result<()> {
    let (source, target, options) = (CString::new(source)?, CString::new(target)?, CString::new(options)?);
    let kind = kind.map(CString::new).transpose()?;
    let kind = kind.as_ref().map_or(ptr::null(), |kind| kind.as_ptr());
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, options.as_ptr().cast()) }).map(drop)
}
