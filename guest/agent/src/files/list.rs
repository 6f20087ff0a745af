//! Listing a directory in byte order, to a depth. Sorting needs all names of a directory at once; everything else is looked
//! up entry by entry. One directory per level is open at a time.

use std::ffi::CStr;
use std::path::Path;

use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tonic::Status;

use crate::contract::{FileStatus, ListReply, file_status::Type};
use crate::errno::status;

use super::directory::{Directory, Names, has_changed, is_denied, os};
use super::status::describe;

pub const MAX_DEPTH: u32 = 16;
pub const QUEUED_REPLIES: usize = 2;
/// Encoded; each entry also has a tag and a length.
const REPLY_BYTES: usize = 64 << 10;
const ENTRY_FRAME_BYTES: usize = 4;

pub type Replies = mpsc::Sender<Result<ListReply, Status>>;

pub fn list(path: &Path, depth: u32, replies: &Replies) -> Result<(), Status> {
    let directory = Directory::open(path).map_err(|e| status(&e, "open"))?;
    let mut batch = Batch { entries: Vec::new(), bytes: 0, replies };
    let mut levels = vec![Level::new(directory, Vec::new())?];
    while let Some(last) = levels.len().checked_sub(1) {
        let below = if levels.len() < depth.clamp(1, MAX_DEPTH) as usize { Below::Open } else { Below::Leave };
        let level = &mut levels[last];
        level.next += 1;
        let Some((name, _)) = level.names.get(level.next - 1) else {
            levels.pop();
            continue;
        };
        let found = level.entry(name, below)?;
        // One that has gone meanwhile is not an entry any more.
        let Some((entry, inner)) = found else { continue };
        let prefix = [&entry.path[..], b"/"].concat();
        if !batch.add(entry) {
            return Ok(());
        }
        if let Some(directory) = inner {
            levels.push(Level::new(directory, prefix)?);
        }
    }
    batch.send();
    Ok(())
}

#[derive(PartialEq)]
enum Below {
    Open,
    Leave,
}

struct Level {
    directory: Directory,
    /// Of the paths of its entries: empty, or with a slash at its end.
    prefix: Vec<u8>,
    names: Names,
    next: usize,
}

impl Level {
    fn new(directory: Directory, prefix: Vec<u8>) -> Result<Self, Status> {
        let names = directory.names().map_err(|e| status(&e, "readdir"))?;
        Ok(Self { directory, prefix, names, next: 0 })
    }

    fn entry(&self, name: &CStr, below: Below) -> Result<Option<(FileStatus, Option<Directory>)>, Status> {
        let facts = match self.directory.facts(name) {
            Ok(facts) => facts,
            Err(e) if has_changed(&e) => return Ok(None),
            Err(e) => return Err(status(&e, "stat")),
        };
        let target = if facts.r#type() == Type::Symlink { self.directory.link_target(name) } else { None };
        let mut entry = describe(os(name), &facts, target);
        entry.path = Bytes::from([&self.prefix[..], name.to_bytes()].concat());
        if facts.r#type() != Type::Directory || below == Below::Leave {
            return Ok(Some((entry, None)));
        }
        match self.directory.open_below(name) {
            Ok(inner) if inner.is_searchable() => Ok(Some((entry, Some(inner)))),
            Ok(_) => Ok(Some((unreadable(entry), None))),
            Err(e) if is_denied(&e) => Ok(Some((unreadable(entry), None))),
            Err(e) if has_changed(&e) => Ok(None),
            Err(e) => Err(status(&e, "open")),
        }
    }
}

fn unreadable(entry: FileStatus) -> FileStatus {
    FileStatus { unreadable: true, ..entry }
}

struct Batch<'a> {
    entries: Vec<FileStatus>,
    bytes: usize,
    replies: &'a Replies,
}

impl Batch<'_> {
    /// False when the reader has left.
    fn add(&mut self, entry: FileStatus) -> bool {
        let bytes = entry.encoded_len() + ENTRY_FRAME_BYTES;
        if self.bytes + bytes > REPLY_BYTES && !self.send() {
            return false;
        }
        self.bytes += bytes;
        self.entries.push(entry);
        true
    }

    fn send(&mut self) -> bool {
        self.bytes = 0;
        let entries = std::mem::take(&mut self.entries);
        entries.is_empty() || self.replies.blocking_send(Ok(ListReply { entries })).is_ok()
    }
}
