//! Opening files beneath a folder, as the kernel guarantees it: no link is followed, no mount is crossed, and nothing leads
//! out of the folder, whatever somebody changes in it meanwhile.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::failure::{About, Failure, Result, check};

const BENEATH: u64 = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;

/// A folder of the configuration; the folders above it are root's.
pub fn open_folder(path: &Path) -> Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let fd = check(path.display(), unsafe { libc::open(c_path(path).as_ptr(), flags) }.into())?;
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Never waits, whatever the name turns out to be.
pub fn open_beneath(folder: &impl AsRawFd, name: &str, flags: libc::c_int) -> io::Result<File> {
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK) as u64;
    how.resolve = BENEATH;
    let path = CString::new(name).map_err(io::Error::other)?;
    let size = size_of::<libc::open_how>();
    let fd = unsafe { libc::syscall(libc::SYS_openat2, folder.as_raw_fd(), path.as_ptr(), &how, size) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { File::from_raw_fd(fd as i32) }) }
}

pub fn own(file: &impl AsRawFd, uid: u32, gid: u32, mode: u32) -> Result<()> {
    check("fchown", unsafe { libc::fchown(file.as_raw_fd(), uid, gid) }.into())?;
    check("fchmod", unsafe { libc::fchmod(file.as_raw_fd(), mode) }.into()).map(drop)
}

/// Also makes it, when it is missing, in a folder that is root's.
pub fn provide_folder(path: &Path, gid: u32, mode: u32) -> Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error).about(path.display()),
        _ => {}
    }
    own(&open_folder(path)?, 0, gid, mode)
}

/// What a descriptor that was passed to us is: only a unix socket is of use.
pub fn require_socket(fd: BorrowedFd<'_>) -> Result<()> {
    let mut domain: libc::c_int = 0;
    socket_option(fd, libc::SO_DOMAIN, &mut domain)?;
    if domain == libc::AF_UNIX { Ok(()) } else { Err(Failure::refused("the descriptor is no unix socket")) }
}

/// Whom a connected unix socket leads to.
pub fn peer_of(fd: BorrowedFd<'_>) -> Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    socket_option(fd, libc::SO_PEERCRED, &mut peer)?;
    Ok(peer)
}

fn socket_option<T>(fd: BorrowedFd<'_>, option: libc::c_int, value: &mut T) -> Result<()> {
    let mut size = size_of::<T>() as libc::socklen_t;
    let pointer: *mut T = value;
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, pointer.cast(), &mut size) };
    check("the descriptor", result.into()).map(drop)
}

pub fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
