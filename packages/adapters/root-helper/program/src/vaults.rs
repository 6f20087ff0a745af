//! Opening and closing the file system of a vault:
//!
//! ```text
//!   backing made once → loop attached → mounted → seen to be ours → handed over to the node
//! ```
//!
//! Each arrow may find its work done, by a helper that was killed or an earlier platform, and takes it over: microVMs may
//! be running on the mount. What was there before an open that fails is left as it was.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::backing::{self, read_superblock};
use crate::config::{Backing, VaultConfig};
use crate::failure::{About, Failure, Result, check};
use crate::files::{open_folder, own, provide_folder};
use crate::loops;
use crate::mounts::{self, btrfs};
use crate::owners::{Owner, hand_over};

const FOLDER_MODE: u32 = 0o750;

pub struct Opened {
    pub uuid: String,
    /// Whether this call has mounted it.
    pub mounted: bool,
}

/// The vault's own folder, which the node can enter, and the file that the node locks while it uses the vault.
pub fn provide_folder_of(vault: &VaultConfig, gid: u32) -> Result<()> {
    fs::create_dir_all(&vault.folder).about(vault.folder.display())?;
    provide_folder(&vault.folder, gid, FOLDER_MODE)?;
    let lock = vault.folder.join("lock");
    own(&File::options().append(true).create(true).open(&lock).about(lock.display())?, 0, gid, 0o640)
}

pub fn open(vault: &VaultConfig, (uid, gid): (u32, u32)) -> Result<Opened> {
    let folder = vault.folder.canonicalize().about(vault.folder.display())?;
    let _turn = take_turn(&folder)?;
    let target = folder.join("mnt");
    if !target.exists() {
        fs::create_dir(&target).about(target.display())?;
    }
    // Another helper could have been told of the same device.
    let _device = lock_device(vault)?;
    let path = backing::prepare(vault, &folder)?;
    let is_loop = matches!(vault.backing, Backing::Loop { .. });
    let devices = if is_loop { loops::of(&path)? } else { vec![path.clone()] };
    let taken_over = mounts::find(&target, &devices)?;
    let mounted = taken_over.is_none();
    let mut undo = Undo { target: mounted.then_some(&target), path: (is_loop && devices.is_empty()).then_some(&path) };
    let device = match (taken_over, devices.into_iter().next()) {
        (Some(mount), _) => {
            mounts::remount(&mount.source, &target)?;
            mount.source
        }
        (None, Some(device)) => device,
        (None, None) => loops::attach(&path)?,
    };
    if is_loop {
        loops::join_requests(&device);
    }
    if mounted {
        mounts::mount(&device, &target)?;
    }
    let superblock = read_superblock(&path)?.ok_or_else(|| Failure::unavailable("the vault has no superblock"))?;
    mounts::read_ahead_little(&superblock.uuid);
    let root = open_folder(&target)?;
    if is_loop && superblock.total_bytes < fs::metadata(&path).about(path.display())?.len() {
        loops::refresh_size(&device)?;
        btrfs::grow(&root)?;
    }
    hand_over(&root, &Owner { uid, gid })?;
    undo.target = None;
    undo.path = None;
    Ok(Opened { uuid: superblock.uuid, mounted })
}

/// Returns when neither mount nor loop device is left; fails, with all as it was, while files are open.
pub fn close(vault: &VaultConfig) -> Result<()> {
    let Ok(folder) = vault.folder.canonicalize() else { return Ok(()) };
    let _turn = take_turn(&folder)?;
    let target = folder.join("mnt");
    while mounts::read()?.iter().any(|mount| mount.target == target) {
        mounts::unmount(&target)?;
    }
    match vault.backing {
        Backing::Loop { .. } => loops::detach(&backing::loop_file(&folder)),
        Backing::Device(_) => Ok(()),
    }
}

/// Undoes what an open has done that fails. The first failure is the one to report; an undo that fails as well is found
/// again at the next open.
struct Undo<'a> {
    target: Option<&'a PathBuf>,
    path: Option<&'a PathBuf>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.target {
            let is_mounted = |target: &Path| mounts::read().is_ok_and(|all| all.iter().any(|one| one.target == target));
            if is_mounted(target) {
                let _ = mounts::unmount(target);
            }
        }
        if let Some(path) = self.path {
            let _ = loops::detach(path);
        }
    }
}

/// One at a time for each vault. The programs that are started meanwhile hold the lock too: when a helper was killed, the
/// next one waits until what it has started is dead.
fn take_turn(folder: &Path) -> Result<OwnedFd> {
    let turn = open_folder(folder)?;
    check("fcntl", unsafe { libc::fcntl(turn.as_raw_fd(), libc::F_SETFD, 0) }.into())?;
    lock(&turn, folder)?;
    Ok(turn)
}

fn lock_device(vault: &VaultConfig) -> Result<Option<File>> {
    let Backing::Device(device) = &vault.backing else { return Ok(None) };
    let file = File::open(device).about(device.display())?;
    lock(&file, device)?;
    Ok(Some(file))
}

fn lock(file: &impl AsRawFd, path: &Path) -> Result<()> {
    check(path.display(), unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }.into()).map(drop)
}
