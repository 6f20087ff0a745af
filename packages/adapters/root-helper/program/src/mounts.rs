//! What is mounted where, as the kernel tells it, and mounting. Every question is put to the kernel each time.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr;

use crate::failure::{About, Failure, Result, check};
use crate::files::c_path;

const FLAGS: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_NOATIME;
/// Freed blocks go back to the host's disk in the background; the node deletes the subvolumes that it owns, and what they held comes back
/// after the kernel's next round of commits, every so many seconds.
const OPTIONS: &str = "discard=async,space_cache=v2,user_subvol_rm_allowed,commit=5";

pub struct Mount {
    pub target: PathBuf,
    pub kind: String,
    pub source: PathBuf,
    /// False also when the file system itself turned read-only after a failure.
    pub writable: bool,
}

/// The mounts of this process's namespace, oldest first.
pub fn read() -> Result<Vec<Mount>> {
    let text = fs::read_to_string("/proc/self/mountinfo").about("the mounts")?;
    Ok(text.lines().filter_map(parse).collect())
}

/// Format: `id parent major:minor root target options tag… - type source super-options`.
fn parse(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(4);
    let (target, options) = (fields.next()?, fields.next()?);
    let mut fields = after.split(' ');
    let (kind, source, super_options) = (fields.next()?, fields.next()?, fields.next()?);
    let writable = [options, super_options].iter().all(|list| list.split(',').any(|option| option == "rw"));
    Some(Mount { target: decode(target), kind: kind.into(), source: decode(source), writable })
}

/// Spaces and the like are written as `\040`.
fn decode(text: &str) -> PathBuf {
    let mut out = vec![];
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match (first, octal) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                rest = &after[3..];
            }
            _ => {
                out.push(first);
                rest = after;
            }
        }
    }
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(out).into()
}

/// The usable mount of one of `devices` at `target`; refuses foreign mounts there and mounts of ours elsewhere.
pub fn find(target: &Path, devices: &[PathBuf]) -> Result<Option<Mount>> {
    let numbers: Vec<_> = devices.iter().filter_map(|path| device_number(path)).collect();
    let mut found = None;
    for mount in read()?.into_iter().filter(|mount| mount.kind == "btrfs" || mount.target == target) {
        let ours = device_number(&mount.source).is_some_and(|number| numbers.contains(&number));
        let (source, place) = (mount.source.display(), mount.target.display());
        if mount.target == target && !ours {
            return Err(Failure::unavailable(format!("{source} is mounted on {place}, which is not this vault")));
        }
        if mount.target != target && ours {
            return Err(Failure::unavailable(format!("{source} is in use: it is mounted on {place}")));
        }
        if ours {
            found = Some(mount);
        }
    }
    match found {
        // A failed write made it read-only, and whoever had it open has failed with it.
        Some(mount) if !mount.writable => unmount(target).map(|()| None),
        found => Ok(found),
    }
}

fn device_number(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

pub fn mount(source: &Path, target: &Path) -> Result<()> {
    call_mount(source, target, FLAGS)
}

/// As other file systems do. Btrfs reads four megabytes around each page of memory that a guest touches. Where it cannot
/// be set, guests wake more slowly, and that is all.
pub fn read_ahead_little(uuid: &str) {
    const READ_AHEAD_KIB: &str = "32";
    let _ = fs::write(format!("/sys/fs/btrfs/{uuid}/bdi/read_ahead_kb"), READ_AHEAD_KIB);
}

/// A mount that is taken over may have been made with other options.
pub fn remount(source: &Path, target: &Path) -> Result<()> {
    call_mount(source, target, FLAGS | libc::MS_REMOUNT)
}

fn call_mount(source: &Path, target: &Path, flags: libc::c_ulong) -> Result<()> {
    let (from, to, options) = (c_path(source), c_path(target), CString::new(OPTIONS).unwrap_or_default());
    let result = unsafe { libc::mount(from.as_ptr(), to.as_ptr(), c"btrfs".as_ptr(), flags, options.as_ptr().cast()) };
    check(format!("mounting {} on {}", source.display(), target.display()), result.into()).map(drop)
}

/// Fails while anything on it is open; never lazy, which would be no close at all.
pub fn unmount(target: &Path) -> Result<()> {
    let result = unsafe { libc::umount2(c_path(target).as_ptr(), 0) };
    if result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EBUSY) {
        let detail = format!("{} stays mounted: files on it are in use", target.display());
        return Err(Failure::new("vault_in_use", detail));
    }
    check(format!("unmounting {}", target.display()), result.into()).map(drop)
}

/// A vault's own settings, by ioctl on an open folder of it.
pub mod btrfs {
    use super::*;
    use std::os::fd::AsRawFd;

    const SUBVOLUME_GET_FLAGS: libc::c_ulong = 0x8008_9419;
    const SUBVOLUME_SET_FLAGS: libc::c_ulong = 0x4008_941a;
    const RESIZE: libc::c_ulong = 0x5000_9403;
    const READ_ONLY: u64 = 2;
    /// `struct btrfs_ioctl_vol_args`: a descriptor and a name.
    const ARGUMENT_BYTES: usize = 4096;
    const NAME_OFFSET: usize = 8;

    pub fn is_sealed(subvolume: &impl AsRawFd) -> Result<bool> {
        let mut flags = 0_u64;
        let result = unsafe { libc::ioctl(subvolume.as_raw_fd(), SUBVOLUME_GET_FLAGS, ptr::from_mut(&mut flags)) };
        check("reading the flags of a subvolume", result.into()).map(|_| flags & READ_ONLY != 0)
    }

    pub fn seal(subvolume: &impl AsRawFd, sealed: bool) -> Result<()> {
        let flags = if sealed { READ_ONLY } else { 0 };
        let result = unsafe { libc::ioctl(subvolume.as_raw_fd(), SUBVOLUME_SET_FLAGS, ptr::from_ref(&flags)) };
        check("sealing a subvolume", result.into()).map(drop)
    }

    /// Lets the file system use the whole of a device that has grown.
    pub fn grow(root: &impl AsRawFd) -> Result<()> {
        let mut argument = [0_u8; ARGUMENT_BYTES];
        argument[NAME_OFFSET..NAME_OFFSET + 3].copy_from_slice(b"max");
        check("growing the vault", unsafe { libc::ioctl(root.as_raw_fd(), RESIZE, argument.as_ptr()) }.into()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_mounts_with_odd_names() {
        let line = "36 35 98:0 / /mnt/a\\040b rw,noatime shared:1 - btrfs /dev/loop0 rw,subvol=/";
        let mount = parse(line).unwrap();
        assert_eq!((mount.target, mount.source), ("/mnt/a b".into(), "/dev/loop0".into()));
        assert!(mount.writable);
        assert!(!parse(&line.replace("- btrfs /dev/loop0 rw", "- btrfs /dev/loop0 ro")).unwrap().writable);
        assert!(parse("nonsense").is_none());
    }
}
