//! The directories that one watch covers: each watch descriptor with its name and the descriptor above it, so that a directory
//! that is moved takes all that is below along.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

use tonic::Status;

use crate::errno::status;

use super::directory::{Directory, has_changed, is_denied};
use super::inotify::Inotify;

/// What a watch may cost the guest: with names of 255 bytes, a few megabytes here and some more in the kernel.
const MAX_DIRECTORIES: usize = 8192;
/// A path is never longer in the kernel either.
const MAX_PATH_BYTES: usize = libc::PATH_MAX as usize;

struct Node {
    above: i32,
    name: Box<[u8]>,
}

/// Told of each entry that is found in a directory that was new; false when nobody listens any more.
pub type Tell<'a> = dyn FnMut((Vec<u8>, bool)) -> bool + 'a;

pub struct Tree {
    pub inotify: Inotify,
    /// Not held open: the kernel tells of the end of a directory only when nobody has it open.
    root: PathBuf,
    root_identity: (u64, u64),
    root_wd: i32,
    recursive: bool,
    nodes: HashMap<i32, Node>,
    limit_hit: bool,
}

impl Tree {
    pub fn plant(path: &Path, recursive: bool, inotify: Inotify) -> Result<Self, Status> {
        let root = Directory::open(path).map_err(|e| status(&e, "open"))?;
        let root_wd = inotify.add(&root).map_err(|e| match e.raw_os_error() {
            // Not the disk is full, but the table of watches.
            Some(libc::ENOSPC) => status(&io::Error::from_raw_os_error(libc::EMFILE), "inotify_add_watch"),
            _ => status(&e, "inotify_add_watch"),
        })?;
        let root_identity = root.identity().map_err(|e| status(&e, "stat"))?;
        drop(root);
        let root = path.to_owned();
        let nodes = HashMap::new();
        let mut tree = Self { inotify, root, root_identity, root_wd, recursive, nodes, limit_hit: false };
        tree.cover_root(&mut |_| true);
        Ok(tree)
    }

    pub fn is_root(&self, wd: i32) -> bool {
        wd == self.root_wd
    }

    /// Once for each time that a directory could not be watched for lack of room.
    pub fn take_limit_hit(&mut self) -> bool {
        std::mem::take(&mut self.limit_hit)
    }

    /// Relative to the root; None of a descriptor that is watched no more.
    pub fn path_of(&self, wd: i32, name: &[u8]) -> Option<Vec<u8>> {
        let mut parts = vec![name];
        let mut length = name.len();
        let mut at = wd;
        while at != self.root_wd {
            let node = self.nodes.get(&at)?;
            length += node.name.len() + 1;
            // Also the end of a circle, which only a lying kernel could make.
            if length > MAX_PATH_BYTES {
                return None;
            }
            parts.push(&node.name);
            at = node.above;
        }
        parts.reverse();
        if name.is_empty() {
            parts.pop();
        }
        Some(parts.join(b"/".as_slice()))
    }

    pub fn forget(&mut self, wd: i32) {
        self.nodes.remove(&wd);
    }

    pub fn moved(&mut self, (above, name): (i32, &[u8]), (new_above, new_name): (i32, &[u8])) {
        // What it took the place of was empty, and ends by itself.
        if let Some(wd) = self.find(above, name) {
            self.nodes.insert(wd, Node { above: new_above, name: new_name.into() });
        }
    }

    /// A directory has left, with all that is below it.
    pub fn uproot(&mut self, above: i32, name: &[u8]) {
        let Some(top) = self.find(above, name) else { return };
        let mut leaving = vec![top];
        while let Some(wd) = leaving.pop() {
            self.inotify.remove(wd);
            self.nodes.remove(&wd);
            leaving.extend(self.nodes.iter().filter(|(_, node)| node.above == wd).map(|(wd, _)| *wd));
        }
    }

    pub fn cover_root(&mut self, tell: &mut Tell) -> bool {
        !self.recursive || self.cover_all(VecDeque::from([self.root_wd]), tell)
    }

    /// Watches a directory that is new, and all below it. What is in it already is told of. False when nobody listens.
    pub fn cover(&mut self, above: i32, name: &[u8], tell: &mut Tell) -> bool {
        if !self.recursive {
            return true;
        }
        let Some(path) = self.path_of(above, name) else { return true };
        match self.open(&path) {
            Ok(directory) => match self.adopt(&directory, above, name) {
                Some(wd) => self.cover_all(VecDeque::from([wd]), tell),
                None => true,
            },
            Err(e) => self.pass_over(&e),
        }
    }

    fn cover_all(&mut self, mut waiting: VecDeque<i32>, tell: &mut Tell) -> bool {
        while let Some(wd) = waiting.pop_front() {
            let Some(path) = self.path_of(wd, b"") else { continue };
            let opened = self.open(&path).and_then(|found| found.names().map(|names| (found, names)));
            let (directory, names) = match opened {
                Ok(opened) => opened,
                Err(e) => {
                    self.pass_over(&e);
                    continue;
                }
            };
            let prefix = if path.is_empty() { path } else { [&path[..], b"/"].concat() };
            let mut next = 0;
            while let Some((name, may_be_directory)) = names.get(next) {
                next += 1;
                let name: CString = name.to_owned();
                let inner = if may_be_directory { directory.open_below(&name) } else { Err(libc_error(libc::ENOTDIR)) };
                if !tell(([&prefix[..], name.to_bytes()].concat(), inner.is_ok())) {
                    return false;
                }
                match inner {
                    Ok(inner) => waiting.extend(self.adopt(&inner, wd, name.to_bytes())),
                    Err(e) => {
                        self.pass_over(&e);
                    }
                }
            }
        }
        true
    }

    /// Its watch descriptor, unless it can't be watched.
    fn adopt(&mut self, directory: &Directory, above: i32, name: &[u8]) -> Option<i32> {
        if self.nodes.len() >= MAX_DIRECTORIES {
            self.limit_hit = true;
            return None;
        }
        match self.inotify.add(directory) {
            Ok(wd) if wd == self.root_wd => None,
            Ok(wd) => {
                self.nodes.insert(wd, Node { above, name: name.into() });
                Some(wd)
            }
            Err(e) => {
                self.pass_over(&e);
                None
            }
        }
    }

    /// A directory below the root, if that is still the one that is watched.
    fn open(&self, path: &[u8]) -> io::Result<Directory> {
        let root = Directory::reach(&self.root)?;
        if root.identity()? != self.root_identity {
            return Err(libc_error(libc::ENOENT));
        }
        root.open_beneath(path)
    }

    fn find(&self, above: i32, name: &[u8]) -> Option<i32> {
        self.nodes.iter().find(|(_, node)| node.above == above && *node.name == *name).map(|(wd, _)| *wd)
    }

    /// A directory that is gone, or that the user may not read, is not the watch's; what else hinders it is told of.
    fn pass_over(&mut self, error: &io::Error) -> bool {
        if !has_changed(error) && !is_denied(error) {
            self.limit_hit = true;
        }
        true
    }
}

fn libc_error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}
