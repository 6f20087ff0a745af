//! Opening and closing the file system of a vault:
//!
//! ```text
//!   backing made once → [key checked → plain view] → loop attached → mounted → seen to be ours → handed over to the node
//! ```
//!
//! Each arrow may find its work done, by a helper that was killed or an earlier platform, and takes it over: microVMs may
//! be running on the mount. What was there before an open that fails is left as it was. The file system of an encrypted vault
//! is made with its container, never by an open.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::backing::{self, read_superblock};
use crate::config::{Backing, Config, VaultConfig};
use crate::containers::{self, Container, Means};
use crate::failure::{About, Failure, Result, check};
use crate::files::{open_folder, own, provide_folder};
use crate::loops;
use crate::mounts::{self, btrfs};
use crate::names::PlaceName;
use crate::owners::{Owner, hand_over};
use crate::secret::{Keyed, Secret};

const FOLDER_MODE: u32 = 0o750;

pub struct Opened {
    pub uuid: String,
    /// Whether this call has mounted it.
    pub mounted: bool,
}

/// As it is listed.
pub struct Listed {
    pub name: String,
    pub encrypted: bool,
    pub open: bool,
    pub way: &'static str,
}

/// The vault's own folder, which the node can enter, and the file that the node locks while it uses the vault.
pub fn provide_folder_of(vault: &VaultConfig, gid: u32) -> Result<()> {
    fs::create_dir_all(&vault.folder).about(vault.folder.display())?;
    provide_folder(&vault.folder, gid, FOLDER_MODE)?;
    let lock = vault.folder.join("lock");
    own(&File::options().append(true).create(true).open(&lock).about(lock.display())?, 0, gid, 0o640)
}

/// What holds the file system of a vault.
enum Found {
    /// A file or a device that is the file system.
    Plain,
    Sealed(Container),
    Nothing,
}

fn look(vault: &VaultConfig, folder: &Path) -> Found {
    match (Container::find(folder), &vault.backing) {
        (Some(container), _) => Found::Sealed(container),
        (None, Backing::Container) if !backing::loop_file(folder).exists() => Found::Nothing,
        _ => Found::Plain,
    }
}

/// Makes the container of a vault, sealed when a key is given; does nothing where it is there with that key.
pub fn create(means: &Means, vault: &VaultConfig, bytes: u64, keyed: Option<&Keyed>) -> Result<()> {
    provide_folder_of(vault, means.config.node_gid)?;
    let folder = vault.folder.canonicalize().about(vault.folder.display())?;
    let _turn = take_turn(&folder)?;
    match (look(vault, &folder), keyed) {
        (Found::Nothing, None) => backing::prepare_loop_file(vault, &folder, bytes).map(drop),
        (Found::Nothing, Some(keyed)) => Container::make(means, vault, &folder, bytes, keyed).map(drop),
        (Found::Sealed(container), Some(keyed)) => set_token(&container, keyed),
        (Found::Plain, None) => Ok(()),
        _ => Err(other_key(vault)),
    }
}

/// The token in the place of the one that its header and the copy of that have, whether it is open or not.
pub fn keep_token(vault: &VaultConfig, keyed: &Keyed) -> Result<()> {
    let folder = vault.folder.canonicalize().map_err(|_| no_vault(vault))?;
    let _turn = take_turn(&folder)?;
    match look(vault, &folder) {
        Found::Sealed(container) => set_token(&container, keyed),
        Found::Plain => Err(other_key(vault)),
        Found::Nothing => Err(no_vault(vault)),
    }
}

fn set_token(container: &Container, keyed: &Keyed) -> Result<()> {
    container.require_key(&keyed.key)?;
    keyed.token.as_ref().map_or(Ok(()), |token| container.set_token(token))
}

pub fn open(means: &Means, vault: &VaultConfig, key: Option<&Secret>) -> Result<Opened> {
    let folder = vault.folder.canonicalize().map_err(|_| no_vault(vault))?;
    let _turn = take_turn(&folder)?;
    let target = folder.join("mnt");
    let found = look(vault, &folder);
    if matches!(found, Found::Nothing) {
        return Err(no_vault(vault));
    }
    if !target.exists() {
        fs::create_dir(&target).about(target.display())?;
    }
    match (found, key) {
        (Found::Sealed(container), key) => open_sealed(means, vault, &container, &target, key),
        (_, Some(_)) => Err(other_key(vault)),
        (_, None) => open_plain(means, vault, &folder, &target),
    }
}

fn open_plain(means: &Means, vault: &VaultConfig, folder: &Path, target: &Path) -> Result<Opened> {
    // Another helper could have been told of the same device.
    let _device = lock_device(vault)?;
    let path = backing::prepare(vault, folder)?;
    if let Backing::Device(_) = vault.backing {
        return mount_vault(means, target, &path, || Ok(path.clone()), None);
    }
    let attached = loops::of(&path)?.into_iter().next();
    let undo = || loops::detach(&path);
    let undo: Option<&dyn Fn() -> Result<()>> = if attached.is_some() { None } else { Some(&undo) };
    let device = attached.map_or_else(|| loops::attach(&path), Ok);
    mount_vault(means, target, &path, || device, undo)
}

/// Whoever has no key can take up what is open, as it is, and nothing else.
fn open_sealed(
    means: &Means,
    vault: &VaultConfig,
    container: &Container,
    target: &Path,
    key: Option<&Secret>,
) -> Result<Opened> {
    if let Some(key) = key {
        container.require_key(key)?;
    }
    let found = container.found()?;
    if found.is_none() && is_mounted(target)? {
        // What showed it has ended, and with it all that could be had through this mount.
        mounts::unmount(target)?;
    }
    let device = match (found, key) {
        (Some((device, way)), _) => {
            container.refresh(&device, way)?;
            if key.is_none() && mounts::find(target, std::slice::from_ref(&device))?.is_none() {
                return Err(other_key(vault));
            }
            return mount_vault(means, target, &device, || Ok(device.clone()), None);
        }
        (None, Some(key)) => container.attach(means, key),
        (None, None) => return Err(other_key(vault)),
    };
    let undo = || container.detach();
    let device = device.inspect_err(|_| drop(undo()))?;
    backing::require_ours(&device, vault).inspect_err(|_| drop(undo()))?;
    mount_vault(means, target, &device, || Ok(device.clone()), Some(&undo))
}

/// Mounts the device, or takes up its mount. `bytes` is where its superblock can be read.
fn mount_vault(
    means: &Means,
    target: &Path,
    bytes: &Path,
    device: impl FnOnce() -> Result<PathBuf>,
    detach: Option<&dyn Fn() -> Result<()>>,
) -> Result<Opened> {
    let mut undo = Undo { target: None, detach };
    let device = device()?;
    let taken_over = mounts::find(target, std::slice::from_ref(&device))?;
    let mounted = taken_over.is_none();
    undo.target = mounted.then_some(target);
    loops::join_requests(&device);
    match taken_over {
        Some(mount) => mounts::remount(&mount.source, target)?,
        None => mounts::mount(&device, target)?,
    }
    let superblock = read_superblock(bytes)?.ok_or_else(|| Failure::unavailable("the vault has no superblock"))?;
    mounts::read_ahead_little(&superblock.uuid);
    let root = open_folder(target)?;
    if bytes != device && superblock.total_bytes < fs::metadata(bytes).about(bytes.display())?.len() {
        loops::refresh_size(&device)?;
        btrfs::grow(&root)?;
    }
    if bytes == device && superblock.total_bytes < loops::bytes_of(&device)? {
        btrfs::grow(&root)?;
    }
    hand_over(&root, &Owner { uid: means.config.node_uid, gid: means.config.node_gid })?;
    undo.target = None;
    undo.detach = None;
    Ok(Opened { uuid: superblock.uuid, mounted })
}

/// Returns when neither mount nor device nor server is left; fails, with all as it was, while files are open.
pub fn close(vault: &VaultConfig) -> Result<()> {
    let Ok(folder) = vault.folder.canonicalize() else { return Ok(()) };
    let _turn = take_turn(&folder)?;
    let target = folder.join("mnt");
    while is_mounted(&target)? {
        mounts::unmount(&target)?;
    }
    match (look(vault, &folder), &vault.backing) {
        (Found::Sealed(container), _) => container.detach(),
        (_, Backing::Device(_)) | (Found::Nothing, _) => Ok(()),
        (Found::Plain, _) => loops::detach(&backing::loop_file(&folder)),
    }
}

/// Makes it larger, whether it is open or not. Does nothing where it is as large.
pub fn grow(vault: &VaultConfig, bytes: u64) -> Result<()> {
    let folder = vault.folder.canonicalize().map_err(|_| no_vault(vault))?;
    let _turn = take_turn(&folder)?;
    let target = folder.join("mnt");
    let device = match look(vault, &folder) {
        Found::Nothing => return Err(no_vault(vault)),
        Found::Plain if matches!(vault.backing, Backing::Device(_)) => {
            return Err(Failure::refused("a vault on a device of its own is as large as that"));
        }
        Found::Plain => {
            let file = backing::loop_file(&folder);
            backing::enlarge(&file, bytes)?;
            let device = loops::of(&file)?.into_iter().next();
            device.as_deref().map_or(Ok(()), loops::refresh_size)?;
            device
        }
        Found::Sealed(container) => {
            container.grow(bytes)?;
            let found = container.found()?;
            found.as_ref().map_or(Ok(()), |(device, way)| container.refresh(device, *way))?;
            found.map(|(device, _)| device)
        }
    };
    match device {
        Some(device) if mounts::find(&target, std::slice::from_ref(&device))?.is_some() => {
            btrfs::grow(&open_folder(&target)?)
        }
        _ => Ok(()),
    }
}

/// Its key, wherever it is kept, opens nothing after this. One that is configured stays.
pub fn remove(vault: &VaultConfig) -> Result<()> {
    if !matches!(vault.backing, Backing::Container) {
        return Err(Failure::refused("that vault is part of the configuration"));
    }
    let Ok(folder) = vault.folder.canonicalize() else { return Ok(()) };
    let _turn = take_turn(&folder)?;
    let target = folder.join("mnt");
    let found = look(vault, &folder);
    let attached = match &found {
        Found::Sealed(container) => container.found()?.is_some(),
        _ => !loops::of(&backing::loop_file(&folder))?.is_empty(),
    };
    if is_mounted(&target)? || attached {
        return Err(Failure::new("vault_in_use", format!("the vault {} is open", vault.name.as_str())));
    }
    if let Found::Sealed(container) = found {
        container.detach()?;
        container.shred()?;
    }
    containers::remove_drafts(&folder)?;
    backing::remove_files(&folder)?;
    containers::remove_if_there(&folder.join("lock"))?;
    for path in [&target, &folder] {
        match fs::remove_dir(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).about(path.display()),
            _ => {}
        }
    }
    folder.parent().map_or(Ok(()), backing::sync)
}

/// Ends what shows an encrypted vault that is not mounted: a close was broken off, and with what is left goes the key. One in which
/// somebody is at work is left alone, and so is one that resists: whoever opens it next tries again.
pub fn end_leftovers(config: &Config) -> Result<()> {
    for vault in all(config)? {
        if let Err(failure) = end_leftover(&vault) {
            eprintln!("What a close of the vault {} left is there still: {}", vault.name.as_str(), failure.detail);
        }
    }
    Ok(())
}

fn end_leftover(vault: &VaultConfig) -> Result<()> {
    let Ok(folder) = vault.folder.canonicalize() else { return Ok(()) };
    let Found::Sealed(container) = look(vault, &folder) else { return Ok(()) };
    let turn = open_folder(&folder)?;
    let is_free = unsafe { libc::flock(turn.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
    if is_free && !is_mounted(&folder.join("mnt"))? {
        container.detach()?;
    }
    Ok(())
}

/// Those that are configured, and those that were made in the folder of vaults.
fn all(config: &Config) -> Result<Vec<VaultConfig>> {
    let mut vaults = config.vaults.clone();
    if let Some(folder) = &config.vaults_folder {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(name) = PlaceName::parse(&entry.file_name().to_string_lossy()) else { continue };
            if !vaults.iter().any(|vault| vault.name == name) {
                vaults.push(config.vault(&name)?);
            }
        }
    }
    Ok(vaults)
}

/// All that are there, configured or made.
pub fn list(means: &Means) -> Result<Vec<Listed>> {
    let mounts = mounts::read()?;
    let mut out = vec![];
    for vault in all(means.config)? {
        let Ok(folder) = vault.folder.canonicalize() else { continue };
        let (encrypted, way) = match look(&vault, &folder) {
            Found::Nothing => continue,
            Found::Plain => (false, "plain"),
            Found::Sealed(container) => {
                let found = container.found().ok().flatten();
                (true, found.map_or_else(|| containers::Way::here(means.config), |(_, way)| way).name())
            }
        };
        let open = mounts.iter().any(|mount| mount.target == folder.join("mnt"));
        out.push(Listed { name: vault.name.as_str().into(), encrypted, open, way });
    }
    Ok(out)
}

fn is_mounted(target: &Path) -> Result<bool> {
    Ok(mounts::read()?.iter().any(|mount| mount.target == target))
}

fn no_vault(vault: &VaultConfig) -> Failure {
    Failure::new("not_found", format!("there is no vault {} on this node", vault.name.as_str()))
}

fn other_key(vault: &VaultConfig) -> Failure {
    let name = vault.name.as_str();
    Failure::new("vault_key_wrong", format!("the vault {name} opens with its own key, or with none if it has none"))
}

/// Undoes what an open has done that fails. The first failure is the one to report; an undo that fails as well is found
/// again at the next open.
struct Undo<'a> {
    target: Option<&'a Path>,
    detach: Option<&'a dyn Fn() -> Result<()>>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.target {
            if is_mounted(target).unwrap_or(false) {
                let _ = mounts::unmount(target);
            }
        }
        if let Some(detach) = self.detach {
            let _ = detach();
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
