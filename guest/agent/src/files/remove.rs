//! Removing an entry, or a directory with all that is in it. Every step is relative to an open directory and follows no link,
//! so a link that is put in the place of a directory is itself what gets removed.

use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

use tokio::sync::mpsc;
use tonic::Status;

use crate::contract::RemoveReply;
use crate::errno::{message, status};

use super::directory::{Directory, Names, has_changed};
use super::durable::sync_directory;
use super::path::{c_name, entry};
use super::write::temporary_name;

pub const QUEUED_REPLIES: usize = 2;
const ENTRIES_PER_REPLY: u64 = 512;
/// Directories open at a time. A tree that is deeper has its lower parts moved up and removed from there.
const MAX_OPEN: usize = 16;

pub type Replies = mpsc::Sender<Result<RemoveReply, Status>>;

pub fn remove(path: &Path, recursive: bool, replies: &Replies) -> Result<(), Status> {
    let (parent, name) = entry(path)?;
    let name = c_name(name)?;
    let directory = Directory::reach(parent).map_err(|e| status(&e, "open"))?;
    let mut removal = Removal { removed: 0, replies };
    let ended = match directory.unlink(&name, 0) {
        Ok(()) => removal.count(),
        Err(e) if e.raw_os_error() == Some(libc::EISDIR) && recursive => removal.tree(&directory, &name),
        Err(e) if e.raw_os_error() == Some(libc::EISDIR) => {
            directory.unlink(&name, libc::AT_REMOVEDIR).map_err(|e| failed(e, "rmdir")).and_then(|()| removal.count())
        }
        Err(e) => Err(failed(e, "unlink")),
    };
    // What is gone is gone for good, also when the rest failed.
    sync_directory(parent);
    match ended {
        Ok(()) => {
            let _ = replies.blocking_send(Ok(RemoveReply { removed: removal.removed, done: true }));
            Ok(())
        }
        Err(Stop::Left) => Ok(()),
        Err(Stop::Failed(error, what)) => Err(removal.status(&error, what)),
    }
}

enum Stop {
    /// Nobody waits for the end any more.
    Left,
    Failed(io::Error, &'static str),
}

fn failed(error: io::Error, what: &'static str) -> Stop {
    Stop::Failed(error, what)
}

struct Level {
    directory: Directory,
    /// In the directory above.
    name: CString,
    names: Names,
    next: usize,
}

impl Level {
    fn open(above: &Directory, name: &CStr) -> io::Result<Self> {
        let directory = above.open_below(name)?;
        let names = directory.names()?;
        Ok(Self { directory, name: name.to_owned(), names, next: 0 })
    }
}

struct Removal<'a> {
    removed: u64,
    replies: &'a Replies,
}

impl Removal<'_> {
    fn tree(&mut self, above: &Directory, name: &CStr) -> Result<(), Stop> {
        let mut levels = self.enter(above, name)?.map_or_else(Vec::new, |top| vec![top]);
        // Moved up from the depth, into the topmost directory.
        let mut moved: Vec<CString> = Vec::new();
        while let Some(level) = levels.last_mut() {
            let next = level.names.get(level.next).map(|(name, _)| name.to_owned());
            level.next += 1;
            let next = next.or_else(|| if levels.len() == 1 { moved.pop() } else { None });
            let Some(name) = next else {
                let done = levels.pop().expect("one is open");
                let outer = levels.last().map_or(above, |outer| &outer.directory);
                self.unlink(outer, &done.name, libc::AT_REMOVEDIR)?;
                continue;
            };
            let directory = &levels.last().expect("one is open").directory;
            if !self.is_directory_after_unlink(directory, &name)? {
                continue;
            }
            if levels.len() < MAX_OPEN {
                if let Some(inner) = self.enter(directory, &name)? {
                    levels.push(inner);
                }
            } else if !self.unlink_if_empty(directory, &name)? {
                let up = temporary_name().map_err(|e| failed(e, "random"))?;
                directory.rename_into(&name, &levels[0].directory, &up).map_err(|e| failed(e, "rename"))?;
                moved.push(up);
            }
        }
        Ok(())
    }

    /// None when there is nothing in it that could be looked at, and it is gone.
    fn enter(&mut self, above: &Directory, name: &CStr) -> Result<Option<Level>, Stop> {
        match Level::open(above, name) {
            Ok(level) => Ok(Some(level)),
            Err(e) if has_changed(&e) => self.unlink(above, name, 0).map(|()| None),
            // An empty one can be removed without being read.
            Err(e) => {
                if self.unlink_if_empty(above, name)? {
                    Ok(None)
                } else {
                    Err(failed(e, "open"))
                }
            }
        }
    }

    fn is_directory_after_unlink(&mut self, directory: &Directory, name: &CStr) -> Result<bool, Stop> {
        match directory.unlink(name, 0) {
            Ok(()) => self.count().map(|()| false),
            Err(e) if e.raw_os_error() == Some(libc::EISDIR) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) => Err(failed(e, "unlink")),
        }
    }

    fn unlink_if_empty(&mut self, directory: &Directory, name: &CStr) -> Result<bool, Stop> {
        if directory.unlink(name, libc::AT_REMOVEDIR).is_err() {
            return Ok(false);
        }
        self.count().map(|()| true)
    }

    fn unlink(&mut self, directory: &Directory, name: &CStr, flags: i32) -> Result<(), Stop> {
        match directory.unlink(name, flags) {
            Ok(()) => self.count(),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            Err(e) => Err(failed(e, "unlink")),
        }
    }

    fn count(&mut self) -> Result<(), Stop> {
        self.removed += 1;
        let told = self.removed % ENTRIES_PER_REPLY != 0
            || self.replies.blocking_send(Ok(RemoveReply { removed: self.removed, done: false })).is_ok();
        if told { Ok(()) } else { Err(Stop::Left) }
    }

    fn status(&self, error: &io::Error, what: &str) -> Status {
        let plain = status(error, what);
        if self.removed == 0 {
            return plain;
        }
        Status::new(plain.code(), format!("{}; {} entries were removed before", message(error, what), self.removed))
    }
}
