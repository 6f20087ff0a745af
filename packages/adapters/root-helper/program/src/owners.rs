//! Whose the files of a vault are: the node's, but for the disks and memories of lives and points, which are the users'
//! of their VMMs, and which the node's group reads.
//!
//! A vault of an earlier version, or of a node of another user, is handed over when it is opened. `vault.json` changes
//! hands last: until it has, the next open begins again, and does what is done already once more.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use crate::failure::{About, Result};
use crate::files::{open_beneath, own};
use crate::mounts::btrfs;

const NOTE: &str = "vault.json";
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const VMM_FILES: [&str; 2] = ["disk.img", "memory"];
const VMM_FILE_MODE: u32 = 0o640;

pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// `root` is the open root folder of the vault.
pub fn hand_over(root: &impl AsRawFd, node: &Owner) -> Result<()> {
    let note = open_beneath(root, NOTE, libc::O_RDONLY).about(NOTE)?;
    let found = note.metadata().about(NOTE)?;
    let top = open_beneath(root, ".", libc::O_RDONLY | libc::O_DIRECTORY).about("the vault")?;
    let kept = top.metadata().about("the vault")?;
    if (found.uid(), found.gid()) == (node.uid, node.gid)
        && (kept.uid(), kept.mode() & 0o7777) == (node.uid, FOLDER_MODE)
    {
        return Ok(());
    }
    for name in names_in(&top)? {
        match name.as_str() {
            NOTE => {}
            "lives" | "points" | "images" | "sandboxes" => {
                let folder = open_beneath(&top, &name, libc::O_RDONLY | libc::O_DIRECTORY).about(&name)?;
                hand_over_folder(&folder, &name, node)?;
                own(&folder, node.uid, node.gid, FOLDER_MODE)?;
            }
            _ => own_file(&top, &name, node, false)?,
        }
    }
    own(&top, node.uid, node.gid, FOLDER_MODE)?;
    top.sync_all().about("the vault")?;
    own(&note, node.uid, node.gid, FILE_MODE)
}

fn hand_over_folder(folder: &File, kind: &str, node: &Owner) -> Result<()> {
    for name in names_in(folder)? {
        let Ok(subvolume) = open_beneath(folder, &name, libc::O_RDONLY | libc::O_DIRECTORY) else {
            own_file(folder, &name, node, false)?;
            continue;
        };
        let sealed = btrfs::is_sealed(&subvolume)?;
        if sealed {
            btrfs::seal(&subvolume, false)?;
        }
        for file in names_in(&subvolume)? {
            // The disk of an image is the node's own: lives start as snapshots of it, and are grown.
            own_file(&subvolume, &file, node, kind != "images")?;
        }
        own(&subvolume, node.uid, node.gid, FOLDER_MODE)?;
        // What has its final name there was sealed, also when a call before this one was interrupted here.
        if sealed || (kind != "lives" && !name.starts_with('.')) {
            btrfs::seal(&subvolume, true)?;
        }
    }
    Ok(())
}

/// Anything but a file is left alone.
fn own_file(folder: &File, name: &str, node: &Owner, vmms_too: bool) -> Result<()> {
    let Ok(file) = open_beneath(folder, name, libc::O_RDONLY) else { return Ok(()) };
    let found = file.metadata().about(name)?;
    if !found.is_file() {
        return Ok(());
    }
    let shared = VMM_FILES.contains(&name);
    let uid = if vmms_too && shared && found.uid() != 0 { found.uid() } else { node.uid };
    let mode = if shared { VMM_FILE_MODE } else { FILE_MODE };
    own(&file, uid, node.gid, mode)
}

fn names_in(folder: &File) -> Result<Vec<String>> {
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let entries = std::fs::read_dir(&path).about("a folder of the vault")?;
    entries.map(|entry| Ok(entry.about("a folder of the vault")?.file_name().to_string_lossy().into_owned())).collect()
}
