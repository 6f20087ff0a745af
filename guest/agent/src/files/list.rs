//! Listing a directory in byte order. Sorting needs all names at once; they lie in one buffer, so that a directory with a
//! million entries costs some tens of megabytes and not hundreds. Everything else is looked up batch by batch.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tonic::Status;

use crate::contract::{FileStatus, ListReply};
use crate::errno::status;

use super::status::describe;

const ENTRIES_PER_REPLY: usize = 256;
pub const QUEUED_REPLIES: usize = 2;

pub type Replies = mpsc::Sender<Result<ListReply, Status>>;

pub fn list(path: &Path, replies: &Replies) -> Result<(), Status> {
    let names = Names::read(path)?;
    let mut entries = Vec::new();
    for name in names.sorted() {
        // One that has gone meanwhile is not an entry any more.
        let Some(entry) = entry(path, name)? else { continue };
        entries.push(entry);
        if entries.len() == ENTRIES_PER_REPLY && !send(replies, &mut entries) {
            return Ok(());
        }
    }
    if !entries.is_empty() {
        send(replies, &mut entries);
    }
    Ok(())
}

fn send(replies: &Replies, entries: &mut Vec<FileStatus>) -> bool {
    replies.blocking_send(Ok(ListReply { entries: std::mem::take(entries) })).is_ok()
}

fn entry(directory: &Path, name: &OsStr) -> Result<Option<FileStatus>, Status> {
    let path = directory.join(name);
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(status(&e, "stat")),
    };
    let target = if metadata.is_symlink() { fs::read_link(&path).ok() } else { None };
    let target = target.map(|target| Bytes::copy_from_slice(target.as_os_str().as_bytes()));
    Ok(Some(describe(name, &metadata, target)))
}

struct Names {
    text: Vec<u8>,
    /// Start and length of each name in `text`.
    spans: Vec<(u32, u16)>,
}

impl Names {
    fn read(path: &Path) -> Result<Self, Status> {
        let mut names = Self { text: Vec::new(), spans: Vec::new() };
        for entry in fs::read_dir(path).map_err(|e| status(&e, "open"))? {
            let name = entry.map_err(|e| status(&e, "readdir"))?.file_name();
            let start = u32::try_from(names.text.len()).map_err(|_| Status::resource_exhausted("too many entries"))?;
            names.spans.push((start, name.len() as u16));
            names.text.extend_from_slice(name.as_bytes());
        }
        Ok(names)
    }

    fn sorted(&self) -> impl Iterator<Item = &OsStr> {
        let name = |(start, length): (u32, u16)| &self.text[start as usize..start as usize + usize::from(length)];
        let mut spans = self.spans.clone();
        spans.sort_unstable_by(|a, b| name(*a).cmp(name(*b)));
        spans.into_iter().map(move |span| OsStr::from_bytes(name(span)))
    }
}
