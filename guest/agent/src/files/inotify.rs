//! inotify(7) as values.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::errno::check;

use super::directory::Directory;

const MASK: u32 = libc::IN_CREATE
    | libc::IN_MODIFY
    | libc::IN_ATTRIB
    | libc::IN_DELETE
    | libc::IN_MOVED_FROM
    | libc::IN_MOVED_TO
    | libc::IN_DELETE_SELF
    | libc::IN_MOVE_SELF
    | libc::IN_ONLYDIR
    | libc::IN_EXCL_UNLINK;
const BUFFER_BYTES: usize = 32 << 10;
const HEAD_BYTES: usize = size_of::<libc::inotify_event>();

pub struct Change {
    pub wd: i32,
    pub mask: u32,
    pub cookie: u32,
    /// In the directory of `wd`; empty for that itself.
    pub name: Vec<u8>,
}

pub struct Inotify(OwnedFd);

impl Inotify {
    pub fn new() -> io::Result<Self> {
        let fd = check(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })?;
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// One that is watched already keeps its number.
    pub fn add(&self, directory: &Directory) -> io::Result<i32> {
        let path = directory.magic_path();
        check(unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), MASK) })
    }

    pub fn remove(&self, wd: i32) {
        unsafe { libc::inotify_rm_watch(self.0.as_raw_fd(), wd) };
    }

    /// What is there now; the order is the kernel's.
    pub fn read(&self) -> io::Result<Vec<Change>> {
        let mut buffer = vec![0u8; BUFFER_BYTES];
        let length = check(unsafe { libc::read(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) })?;
        let mut rest = &buffer[..length as usize];
        let mut changes = Vec::new();
        while rest.len() >= HEAD_BYTES {
            // SAFETY: the bytes are the kernel's, of that length; they need not be aligned.
            let head: libc::inotify_event = unsafe { std::ptr::read_unaligned(rest.as_ptr().cast()) };
            let end = HEAD_BYTES + head.len as usize;
            let padded = &rest[HEAD_BYTES..end];
            let name = padded.split(|b| *b == 0).next().unwrap_or_default().to_vec();
            changes.push(Change { wd: head.wd, mask: head.mask, cookie: head.cookie, name });
            rest = &rest[end..];
        }
        Ok(changes)
    }
}

impl AsRawFd for Inotify {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
