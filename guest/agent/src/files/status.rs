//! What the host is told of one directory entry.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use prost::bytes::Bytes;

use crate::contract::{FileStatus, file_status::Type};

/// What stat(2) says, from whichever side it comes.
pub struct Facts {
    pub mode: u32,
    size: u64,
    uid: u32,
    gid: u32,
    seconds: i64,
    nanoseconds: i64,
}

impl Facts {
    pub fn r#type(&self) -> Type {
        match self.mode & libc::S_IFMT {
            libc::S_IFREG => Type::File,
            libc::S_IFDIR => Type::Directory,
            libc::S_IFLNK => Type::Symlink,
            _ => Type::Other,
        }
    }
}

impl From<&Metadata> for Facts {
    fn from(found: &Metadata) -> Self {
        Self {
            mode: found.mode(),
            size: found.size(),
            uid: found.uid(),
            gid: found.gid(),
            seconds: found.mtime(),
            nanoseconds: found.mtime_nsec(),
        }
    }
}

impl From<&libc::stat> for Facts {
    fn from(found: &libc::stat) -> Self {
        Self {
            mode: found.st_mode,
            size: found.st_size as u64,
            uid: found.st_uid,
            gid: found.st_gid,
            seconds: found.st_mtime,
            nanoseconds: found.st_mtime_nsec,
        }
    }
}

pub fn describe(name: &OsStr, facts: &Facts, link_target: Option<Bytes>) -> FileStatus {
    FileStatus {
        name: Bytes::copy_from_slice(name.as_bytes()),
        r#type: facts.r#type().into(),
        size: facts.size,
        mode: facts.mode & 0o7777,
        uid: facts.uid,
        gid: facts.gid,
        modified_ns: facts.seconds.saturating_mul(1_000_000_000).saturating_add(facts.nanoseconds),
        link_target: link_target.unwrap_or_default(),
        path: Bytes::new(),
        unreadable: false,
    }
}
