//! Replacing a file atomically and durably:
//!
//! ```text
//! make missing parents ─► temporary file beside the target ─► bytes ─► fsync ─► rename over it ─► fsync the directory
//! ```
//!
//! The mode counts after the kernel: fchmod(2) clears the set-id bits that the user may not give.
//!
//! Invariants: until the rename the target is untouched; the temporary file is gone after every other end; everything happens
//! through one descriptor of the directory, so that a directory renamed meanwhile changes nothing.

use std::ffi::CString;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use prost::bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tonic::Status;

use crate::contract::WriteReply;
use crate::errno::{check, status};

use super::change::make_parents;
use super::path::{c_name, split};
use super::read::refuse_special;

const DEFAULT_MODE: u32 = 0o644;
const NAME_ATTEMPTS: usize = 16;

pub enum Step {
    Data(Bytes),
    /// With the digest that the bytes must have, or empty.
    Commit(Bytes),
}

pub struct Target<'a> {
    pub path: &'a Path,
    /// None: that of the replaced file less the set-id bits, or 0644.
    pub mode: Option<u32>,
    /// Nothing may be there yet.
    pub if_absent: bool,
}

/// Steps that end without a Commit change nothing.
pub fn write(target: &Target, steps: mpsc::Receiver<Step>) -> Result<WriteReply, Status> {
    let (parent, name) = split(target.path)?;
    if target.if_absent && target.path.symlink_metadata().is_ok() {
        return Err(status(&io::Error::from_raw_os_error(libc::EEXIST), "create"));
    }
    let replaced = replaced(target.path)?;
    let directory = open_directory(parent)?;
    let name = c_name(name)?;
    let kept = || replaced.map_or(DEFAULT_MODE, |old| old.permissions().mode() & 0o777);
    let mode = target.mode.unwrap_or_else(kept);
    let mut temporary = Temporary::create(&directory).map_err(|e| status(&e, "create"))?;
    let reply = fill(&mut temporary.file, steps)?;
    temporary.replace(&name, mode, target.if_absent)?;
    sync_directory(&directory, &temporary.file).map_err(|e| status(&e, "fsync"))?;
    Ok(reply)
}

fn fill(file: &mut File, mut steps: mpsc::Receiver<Step>) -> Result<WriteReply, Status> {
    let (mut size, mut digest) = (0, Sha256::new());
    loop {
        match steps.blocking_recv() {
            Some(Step::Data(data)) => {
                file.write_all(&data).map_err(|e| status(&e, "write"))?;
                digest.update(&data);
                size += data.len() as u64;
            }
            Some(Step::Commit(expected)) => {
                let sha256 = Bytes::from(digest.finalize().to_vec());
                if !expected.is_empty() && expected != sha256 {
                    return Err(Status::aborted("the bytes are not those of the digest; nothing was changed"));
                }
                return Ok(WriteReply { size, sha256 });
            }
            None => return Err(Status::aborted("the stream ended without a commit; nothing was changed")),
        }
    }
}

/// The regular file that is there now; anything else can't be replaced by one.
fn replaced(path: &Path) -> Result<Option<Metadata>, Status> {
    match std::fs::metadata(path) {
        Ok(metadata) => refuse_special(&metadata).map(|()| Some(metadata)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(status(&e, "stat")),
    }
}

fn open_directory(path: &Path) -> Result<File, Status> {
    make_parents(path).map_err(|e| status(&e, "mkdir"))?;
    let path = c_name(path.as_os_str())?;
    let open = |access: i32| unsafe { libc::open(path.as_ptr(), access | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    // A directory may be written to without being readable.
    let fd = check(open(libc::O_RDONLY)).or_else(|_| check(open(libc::O_PATH))).map_err(|e| status(&e, "open"))?;
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn sync_directory(directory: &File, file: &File) -> io::Result<()> {
    match directory.sync_all() {
        // Opened without reading: the whole file system it is, then.
        Err(e) if e.raw_os_error() == Some(libc::EBADF) => check(unsafe { libc::syncfs(file.as_raw_fd()) }).map(drop),
        synced => synced,
    }
}

struct Temporary<'a> {
    directory: &'a File,
    name: CString,
    file: File,
    renamed: bool,
}

impl<'a> Temporary<'a> {
    fn create(directory: &'a File) -> io::Result<Self> {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let mut last = io::Error::from_raw_os_error(libc::EEXIST);
        for _ in 0..NAME_ATTEMPTS {
            let name = temporary_name()?;
            match check(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, 0o600) }) {
                Ok(fd) => return Ok(Self { directory, name, file: unsafe { File::from_raw_fd(fd) }, renamed: false }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => last = e,
                Err(e) => return Err(e),
            }
        }
        Err(last)
    }

    fn replace(&mut self, name: &CString, mode: u32, if_absent: bool) -> Result<(), Status> {
        let file = self.file.as_raw_fd();
        check(unsafe { libc::fchmod(file, mode) }).map_err(|e| status(&e, "chmod"))?;
        self.file.sync_all().map_err(|e| status(&e, "fsync"))?;
        let directory = self.directory.as_raw_fd();
        let flags = if if_absent { libc::RENAME_NOREPLACE } else { 0 };
        check(unsafe { libc::renameat2(directory, self.name.as_ptr(), directory, name.as_ptr(), flags) })
            .map_err(|e| status(&e, "rename"))?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            unsafe { libc::unlinkat(self.directory.as_raw_fd(), self.name.as_ptr(), 0) };
        }
    }
}

pub fn temporary_name() -> io::Result<CString> {
    let mut random = [0u8; 6];
    check(unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) })?;
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(CString::new(format!(".space-{hex}"))?)
}
