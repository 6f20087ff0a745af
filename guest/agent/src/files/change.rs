//! Changes of names and attributes: each is one system call as the user, so that the kernel decides and races harm nobody,
//! and then made durable.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use prost::bytes::Bytes;
use tonic::Status;

use crate::contract::FileStatus;
use crate::errno::{check, status};

use super::durable::{sync_directory, sync_entry};
use super::path::{c_name, entry};
use super::status::{Facts, describe};

const DIRECTORY_MODE: u32 = 0o755;

pub fn stat(path: &Path, no_follow: bool) -> Result<FileStatus, Status> {
    let found = if no_follow { fs::symlink_metadata(path) } else { fs::metadata(path) };
    let found = found.map_err(|e| status(&e, "stat"))?;
    let target = if found.is_symlink() { fs::read_link(path).ok() } else { None };
    let target = target.map(|target| Bytes::copy_from_slice(target.as_os_str().as_bytes()));
    Ok(describe(path.file_name().unwrap_or_default(), &Facts::from(&found), target))
}

pub fn make_directory(path: &Path, parents: bool, mode: Option<u32>) -> Result<FileStatus, Status> {
    let (parent, _) = entry(path)?;
    if parents {
        make_parents(parent).map_err(|e| status(&e, "mkdir"))?;
    }
    match DirBuilder::new().mode(mode.unwrap_or(DIRECTORY_MODE)).create(path) {
        Ok(()) => give_mode(path, mode.unwrap_or(DIRECTORY_MODE)).map_err(|e| status(&e, "chmod"))?,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && parents && path.is_dir() => {}
        Err(e) => return Err(status(&e, "mkdir")),
    }
    sync_directory(parent);
    stat(path, false)
}

pub fn make_parents(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path).map_err(|e| match e.kind() {
        // What is in the way is no directory, which is what the path needs.
        io::ErrorKind::AlreadyExists => io::Error::from_raw_os_error(libc::ENOTDIR),
        _ => e,
    })
}

/// The mode as it was asked for, whatever the umask. A set-group-id bit that the directory has from its parent stays.
fn give_mode(path: &Path, mode: u32) -> io::Result<()> {
    let opened =
        OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY).open(path)?;
    let inherited = opened.metadata()?.permissions().mode() & libc::S_ISGID;
    fs::set_permissions(magic(&opened), Permissions::from_mode(mode | inherited))
}

pub fn rename(from: &Path, to: &Path, no_replace: bool) -> Result<(), Status> {
    let (old, new) = (c_name(from.as_os_str())?, c_name(to.as_os_str())?);
    let flags = if no_replace { libc::RENAME_NOREPLACE } else { 0 };
    check(unsafe { libc::renameat2(libc::AT_FDCWD, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags) })
        .map_err(|e| status(&e, "rename"))?;
    for path in [from, to] {
        if let Ok((parent, _)) = entry(path) {
            sync_directory(parent);
        }
    }
    Ok(())
}

pub fn make_symlink(path: &Path, target: &[u8]) -> Result<FileStatus, Status> {
    let (parent, _) = entry(path)?;
    symlink(std::ffi::OsStr::from_bytes(target), path).map_err(|e| status(&e, "symlink"))?;
    sync_directory(parent);
    stat(path, true)
}

/// None leaves a value as it is.
pub struct Attributes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub no_follow: bool,
}

pub fn set_attributes(path: &Path, wanted: &Attributes) -> Result<FileStatus, Status> {
    let flags = libc::O_PATH | if wanted.no_follow { libc::O_NOFOLLOW } else { 0 };
    // One descriptor for both calls: they never meet two different files.
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|e| status(&e, "open"))?;
    if wanted.uid.is_some() || wanted.gid.is_some() {
        let (uid, gid) = (wanted.uid.unwrap_or(u32::MAX), wanted.gid.unwrap_or(u32::MAX));
        let empty = CString::default();
        check(unsafe { libc::fchownat(opened.as_raw_fd(), empty.as_ptr(), uid, gid, libc::AT_EMPTY_PATH) })
            .map_err(|e| status(&e, "chown"))?;
    }
    if let Some(mode) = wanted.mode {
        if opened.metadata().is_ok_and(|found| found.is_symlink()) {
            return Err(status(&io::Error::from_raw_os_error(libc::EOPNOTSUPP), "chmod of a symbolic link"));
        }
        fs::set_permissions(magic(&opened), Permissions::from_mode(mode)).map_err(|e| status(&e, "chmod"))?;
    }
    sync_entry(path);
    stat(path, wanted.no_follow)
}

/// Stands for the opened file in calls that take a path.
fn magic(opened: &File) -> String {
    format!("/proc/self/fd/{}", opened.as_raw_fd())
}
