//! Telling of changes below a directory, from inotify(7). The thread that watches has the user's authority, so the kernel
//! watches only what the user can read.
//!
//! ```text
//! kernel queue (bounded) ─► thread: wd → directory, pairs of a move ─► channel of two replies ─► HTTP/2 window
//! ```
//!
//! Invariants: whoever is too slow fills the kernel's queue and is told so (OVERFLOW), so nothing here grows with the number
//! of changes; a directory that is not watched for lack of room is told of in the same way; a watch whose directory is gone
//! ends with an error. Between changes the thread sleeps.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tonic::Status;

use crate::contract::{WatchEvent, WatchReply, watch_event::Kind};
use crate::errno::status;

use super::inotify::{Change, Inotify};
use super::tree::Tree;

pub const QUEUED_REPLIES: usize = 2;
/// Encoded; each event also has a tag and a length.
const REPLY_BYTES: usize = 64 << 10;
const EVENT_FRAME_BYTES: usize = 4;
/// How long the second half of a move may be behind the first.
const PAIR_WAIT_MS: i32 = 10;

pub type Replies = mpsc::Sender<Result<WatchReply, Status>>;

/// Returns when `left` hangs up, which says that the reader has left; or with why the watch is over.
pub fn watch(path: &Path, recursive: bool, replies: &Replies, left: &OwnedFd) -> Result<(), Status> {
    let inotify = Inotify::new().map_err(|e| status(&e, "inotify_init"))?;
    let mut tree = Tree::plant(path, recursive, inotify)?;
    let mut outbox = Outbox { events: Vec::new(), bytes: 0, replies };
    if replies.blocking_send(Ok(WatchReply { events: Vec::new() })).is_err() {
        return Ok(());
    }
    tell_of_limit(&mut tree, &mut outbox);
    while outbox.send() {
        if !wait(&tree.inotify, Some(left), -1)? {
            return Ok(());
        }
        let mut changes = read(&tree.inotify)?;
        if has_half_a_move(&changes) && wait(&tree.inotify, None, PAIR_WAIT_MS)? {
            changes.extend(read(&tree.inotify)?);
        }
        for index in 0..changes.len() {
            let pair = pair_of(&changes, index);
            if !take(&mut tree, &mut outbox, &changes[index], pair.map(|at| &changes[at]))? {
                return Ok(());
            }
        }
        tell_of_limit(&mut tree, &mut outbox);
    }
    Ok(())
}

/// False when the reader has left.
fn take(tree: &mut Tree, outbox: &mut Outbox, change: &Change, pair: Option<&Change>) -> Result<bool, Status> {
    if change.mask & libc::IN_Q_OVERFLOW != 0 {
        let told = outbox.add(event(Kind::Overflow, Vec::new(), false));
        // What was made meanwhile is watched from now on.
        tree.cover_root(&mut |_| true);
        return Ok(told);
    }
    if tree.is_root(change.wd) && change.mask & (libc::IN_DELETE_SELF | libc::IN_MOVE_SELF | libc::IN_UNMOUNT) != 0 {
        outbox.send();
        return Err(Status::not_found("ENOENT: the watched directory is not there any more"));
    }
    if change.mask & libc::IN_IGNORED != 0 {
        tree.forget(change.wd);
        return Ok(true);
    }
    let Some(path) = tree.path_of(change.wd, &change.name) else { return Ok(true) };
    let directory = change.mask & libc::IN_ISDIR != 0;
    if change.name.is_empty() {
        // Of an inner directory, the one above tells the same.
        let own = tree.is_root(change.wd) && change.mask & libc::IN_ATTRIB != 0;
        return Ok(!own || outbox.add(event(Kind::Attributes, path, true)));
    }
    if change.mask & libc::IN_MOVED_FROM != 0 {
        if let Some(to) = pair {
            let Some(new_path) = tree.path_of(to.wd, &to.name) else { return Ok(true) };
            if directory {
                tree.moved((change.wd, &change.name), (to.wd, &to.name));
            }
            let moved = WatchEvent { from: Bytes::from(path), ..event(Kind::Moved, new_path, directory) };
            return Ok(outbox.add(moved));
        }
        if directory {
            tree.uproot(change.wd, &change.name);
        }
        return Ok(outbox.add(event(Kind::Removed, path, directory)));
    }
    if change.mask & libc::IN_MOVED_TO != 0 && pair.is_some() {
        return Ok(true);
    }
    if change.mask & (libc::IN_CREATE | libc::IN_MOVED_TO) != 0 {
        if !outbox.add(event(Kind::Created, path, directory)) {
            return Ok(false);
        }
        let mut tell = |(path, directory)| outbox.add(event(Kind::Created, path, directory));
        return Ok(!directory || tree.cover(change.wd, &change.name, &mut tell));
    }
    let kind = match change.mask {
        mask if mask & libc::IN_DELETE != 0 => Kind::Removed,
        mask if mask & libc::IN_MODIFY != 0 => Kind::Modified,
        mask if mask & libc::IN_ATTRIB != 0 => Kind::Attributes,
        _ => return Ok(true),
    };
    Ok(outbox.add(event(kind, path, directory)))
}

fn tell_of_limit(tree: &mut Tree, outbox: &mut Outbox) {
    if tree.take_limit_hit() {
        outbox.add(event(Kind::Overflow, Vec::new(), false));
    }
}

fn event(kind: Kind, path: Vec<u8>, directory: bool) -> WatchEvent {
    WatchEvent { kind: kind.into(), path: path.into(), directory, from: Bytes::new() }
}

/// The other half of a move, of either half.
fn pair_of(changes: &[Change], index: usize) -> Option<usize> {
    let Change { mask, cookie, .. } = changes[index];
    if mask & libc::IN_MOVED_FROM != 0 {
        (index + 1..changes.len()).find(|at| is_half(&changes[*at], libc::IN_MOVED_TO, cookie))
    } else if mask & libc::IN_MOVED_TO != 0 {
        (0..index).rev().find(|at| is_half(&changes[*at], libc::IN_MOVED_FROM, cookie))
    } else {
        None
    }
}

fn is_half(change: &Change, half: u32, cookie: u32) -> bool {
    change.mask & half != 0 && change.cookie == cookie
}

fn has_half_a_move(changes: &[Change]) -> bool {
    (0..changes.len()).any(|at| changes[at].mask & libc::IN_MOVED_FROM != 0 && pair_of(changes, at).is_none())
}

fn read(inotify: &Inotify) -> Result<Vec<Change>, Status> {
    inotify.read().map_err(|e| status(&e, "read"))
}

/// True when there is something to read; false after the time, or when `left` hangs up.
fn wait(inotify: &Inotify, left: Option<&OwnedFd>, timeout_ms: i32) -> Result<bool, Status> {
    let poll = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // A negative descriptor is passed over.
    let mut watched = [poll(inotify.as_raw_fd()), poll(left.map_or(-1, AsRawFd::as_raw_fd))];
    loop {
        if unsafe { libc::poll(watched.as_mut_ptr(), 2, timeout_ms) } >= 0 {
            return Ok(watched[1].revents == 0 && watched[0].revents != 0);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(status(&error, "poll"));
        }
    }
}

struct Outbox<'a> {
    events: Vec<WatchEvent>,
    bytes: usize,
    replies: &'a Replies,
}

impl Outbox<'_> {
    /// False when the reader has left.
    fn add(&mut self, event: WatchEvent) -> bool {
        let bytes = event.encoded_len() + EVENT_FRAME_BYTES;
        if self.bytes + bytes > REPLY_BYTES && !self.send() {
            return false;
        }
        self.bytes += bytes;
        self.events.push(event);
        true
    }

    fn send(&mut self) -> bool {
        self.bytes = 0;
        let events = std::mem::take(&mut self.events);
        if events.is_empty() {
            return !self.replies.is_closed();
        }
        self.replies.blocking_send(Ok(WatchReply { events })).is_ok()
    }
}
