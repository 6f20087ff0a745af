//! What the host is told of one directory entry.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use prost::bytes::Bytes;

use crate::contract::{FileStatus, file_status::Type};

pub fn describe(name: &OsStr, metadata: &Metadata, link_target: Option<Bytes>) -> FileStatus {
    let kind = metadata.file_type();
    let r#type = if kind.is_file() {
        Type::File
    } else if kind.is_dir() {
        Type::Directory
    } else if kind.is_symlink() {
        Type::Symlink
    } else {
        Type::Other
    };
    FileStatus {
        name: Bytes::copy_from_slice(name.as_bytes()),
        r#type: r#type.into(),
        size: metadata.size(),
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        modified_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
        link_target: link_target.unwrap_or_default(),
    }
}
