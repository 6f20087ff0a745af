//! Making a change of names or attributes durable. On ext4 one fsync commits all that came before it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Of a directory whose entries have changed.
pub fn sync_directory(path: &Path) {
    sync(path, libc::O_DIRECTORY);
}

/// Of an entry whose attributes have changed. Only a file or a directory that can be read can be synced by itself.
pub fn sync_entry(path: &Path) {
    let is_plain = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() || found.is_dir());
    if is_plain { sync(path, libc::O_NOFOLLOW) } else { sync_all() }
}

fn sync(path: &Path, flags: i32) {
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    let synced = OpenOptions::new().read(true).custom_flags(flags).open(path).and_then(|file: File| file.sync_all());
    if synced.is_err() {
        sync_all();
    }
}

/// Needs no permission.
fn sync_all() {
    unsafe { libc::sync() };
}
