//! A directory by its descriptor. What is below it is reached name by name and without following links, so that nothing that
//! is renamed or replaced meanwhile leads elsewhere.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use prost::bytes::Bytes;

use crate::errno::check;

use super::status::Facts;

pub struct Directory(OwnedFd);

impl Directory {
    /// To be listed. Links on the way to it are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, libc::O_RDONLY)
    }

    /// To reach what is in it, which needs no permission to list it.
    pub fn reach(path: &Path) -> io::Result<Self> {
        Self::open_with(path, libc::O_PATH)
    }

    /// One that is open for reading already.
    pub fn at(directory: BorrowedFd) -> io::Result<Self> {
        directory.try_clone_to_owned().map(Self)
    }

    fn open_with(path: &Path, access: i32) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let flags = access | libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_CLOEXEC;
        check(unsafe { libc::open(path.as_ptr(), flags) }).map(Self::own)
    }

    pub fn open_below(&self, name: &CStr) -> io::Result<Self> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        check(unsafe { libc::openat(self.raw(), name.as_ptr(), flags) }).map(Self::own)
    }

    /// Several components down; ELOOP when any of them is a link.
    pub fn open_beneath(&self, path: &[u8]) -> io::Result<Self> {
        let path = CString::new(if path.is_empty() { b".".as_slice() } else { path })?;
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_CLOEXEC) as u64;
        how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS;
        let size = size_of::<libc::open_how>();
        let fd = unsafe { libc::syscall(libc::SYS_openat2, self.raw(), path.as_ptr(), &how, size) };
        check(fd).map(|fd| Self::own(fd as i32))
    }

    pub fn facts(&self, name: &CStr) -> io::Result<Facts> {
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        check(unsafe { libc::fstatat(self.raw(), name.as_ptr(), &mut found, libc::AT_SYMLINK_NOFOLLOW) })?;
        Ok(Facts::from(&found))
    }

    /// Device and inode.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        check(unsafe { libc::fstat(self.raw(), &mut found) })?;
        Ok((found.st_dev, found.st_ino))
    }

    /// Whether names in it can be looked up.
    pub fn is_searchable(&self) -> bool {
        self.facts(c".").is_ok()
    }

    pub fn link_target(&self, name: &CStr) -> Option<Bytes> {
        let mut target = vec![0u8; libc::PATH_MAX as usize];
        let length =
            check(unsafe { libc::readlinkat(self.raw(), name.as_ptr(), target.as_mut_ptr().cast(), target.len()) });
        Some(Bytes::copy_from_slice(&target[..length.ok()? as usize]))
    }

    /// `flags`: 0, or `AT_REMOVEDIR`.
    pub fn unlink(&self, name: &CStr, flags: i32) -> io::Result<()> {
        check(unsafe { libc::unlinkat(self.raw(), name.as_ptr(), flags) }).map(drop)
    }

    pub fn rename_into(&self, name: &CStr, other: &Self, new_name: &CStr) -> io::Result<()> {
        check(unsafe { libc::renameat(self.raw(), name.as_ptr(), other.raw(), new_name.as_ptr()) }).map(drop)
    }

    /// Stands for this very directory in calls that take a path.
    pub fn magic_path(&self) -> CString {
        CString::new(format!("/proc/self/fd/{}", self.raw())).expect("digits hold no zero byte")
    }

    pub fn names(&self) -> io::Result<Names> {
        let own = self.open_below(c".")?;
        let stream = unsafe { libc::fdopendir(own.raw()) };
        if stream.is_null() {
            return Err(io::Error::last_os_error());
        }
        // The stream has taken the descriptor over.
        std::mem::forget(own);
        let names = read_names(stream);
        unsafe { libc::closedir(stream) };
        names
    }

    fn own(fd: i32) -> Self {
        Self(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

fn read_names(stream: *mut libc::DIR) -> io::Result<Names> {
    let mut names = Names::default();
    loop {
        unsafe { *libc::__errno_location() = 0 };
        let entry = unsafe { libc::readdir(stream) };
        if entry.is_null() {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(0) { Ok(names.sorted()) } else { Err(error) };
        }
        let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
        if name != c"." && name != c".." {
            names.push(name, unsafe { (*entry).d_type })?;
        }
    }
}

/// The names in a directory, in byte order. They lie in one buffer, so that a directory with a million entries costs some
/// tens of megabytes and not hundreds.
#[derive(Default)]
pub struct Names {
    /// Each with its zero byte.
    text: Vec<u8>,
    /// Start and length of each name in `text`, and whether it may be a directory.
    spans: Vec<(u32, u16, bool)>,
}

impl Names {
    fn push(&mut self, name: &CStr, kind: u8) -> io::Result<()> {
        let start = u32::try_from(self.text.len()).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let may_be_directory = kind == libc::DT_DIR || kind == libc::DT_UNKNOWN;
        self.text.extend_from_slice(name.to_bytes_with_nul());
        self.spans.push((start, name.count_bytes() as u16, may_be_directory));
        Ok(())
    }

    fn sorted(mut self) -> Self {
        let Self { text, spans } = &mut self;
        let name = |start: u32, length: u16| &text[start as usize..start as usize + usize::from(length)];
        spans.sort_unstable_by(|a, b| name(a.0, a.1).cmp(name(b.0, b.1)));
        self
    }

    /// The name at an index, and whether it may be a directory.
    pub fn get(&self, index: usize) -> Option<(&CStr, bool)> {
        let (start, length, may_be_directory) = *self.spans.get(index)?;
        let bytes = &self.text[start as usize..=start as usize + usize::from(length)];
        Some((CStr::from_bytes_with_nul(bytes).expect("pushed with its zero byte"), may_be_directory))
    }
}

pub fn os(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

/// Whether an error says that an entry is gone or is no directory any more, which is no failure of a walk.
pub fn has_changed(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

pub fn is_denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}
