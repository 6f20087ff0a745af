//! The root disk: found, mounted, and grown to the size that the host has given the device.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::BootResult;
use super::mounts;
use crate::errno::check;
use crate::log;

const DEVICE: &str = "/dev/vda";
/// Inode tables are made whole when the file system grows, which on a sparse disk writes nothing. By default a thread of the
/// kernel does it later, and an idle guest would write for minutes.
const OPTIONS: &str = "noinit_itable";

// <linux/fs.h> and ext4; libc names neither.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const EXT4_IOC_RESIZE_FS: libc::c_ulong = 0x4008_6610;

const SUPERBLOCK_OFFSET: u64 = 1024;

pub fn find() -> io::Result<PathBuf> {
    File::open(DEVICE).map(|_| PathBuf::from(DEVICE))
}

pub fn mount(device: &Path, target: &str) -> BootResult<()> {
    mounts::make_directory(target)?;
    mounts::call(&device.to_string_lossy(), target, Some("ext4"), libc::MS_NOATIME, OPTIONS)
        .map_err(|e| format!("mount {} as ext4: {e}", device.display()))?;
    if let Err(error) = grow(device, target) {
        // Smaller than promised, but whole: the host sees the size and can tell.
        log::error(&format!("root file system not grown: {error}"));
    }
    Ok(())
}

fn grow(device: &Path, mount_point: &str) -> io::Result<()> {
    let mut disk = File::open(device)?;
    let mut superblock = [0; 1024];
    disk.seek(SeekFrom::Start(SUPERBLOCK_OFFSET))?;
    disk.read_exact(&mut superblock)?;
    let (blocks, block_bytes) = geometry(&superblock).ok_or(io::ErrorKind::InvalidData)?;
    let mut device_bytes = 0u64;
    check(unsafe { libc::ioctl(disk.as_raw_fd(), BLKGETSIZE64, &mut device_bytes) })?;
    let wanted = device_bytes / block_bytes;
    if wanted <= blocks {
        return Ok(());
    }
    let root = File::open(mount_point)?;
    check(unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_RESIZE_FS, &wanted) }).map(drop)
}

/// Blocks of the file system and bytes of each, from an ext4 superblock.
fn geometry(superblock: &[u8; 1024]) -> Option<(u64, u64)> {
    let word = |at: usize| superblock.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    const MAGIC: [u8; 2] = [0x53, 0xef];
    const INCOMPAT_64BIT: u32 = 0x80;
    if superblock[0x38..0x3a] != MAGIC {
        return None;
    }
    let high = if word(0x60)? & INCOMPAT_64BIT != 0 { word(0x150)? } else { 0 };
    let blocks = u64::from(high) << 32 | u64::from(word(0x4)?);
    let block_bytes = 1024u64.checked_shl(word(0x18)?).filter(|bytes| (1024..=65_536).contains(bytes))?;
    Some((blocks, block_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_geometry_of_a_superblock() {
        let mut superblock = [0; 1024];
        assert_eq!(geometry(&superblock), None);
        superblock[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        superblock[0x4..0x8].copy_from_slice(&1000u32.to_le_bytes());
        superblock[0x18] = 2;
        superblock[0x150] = 1;
        assert_eq!(geometry(&superblock), Some((1000, 4096)));
        superblock[0x60] = 0x80;
        assert_eq!(geometry(&superblock), Some(((1 << 32) + 1000, 4096)));
        superblock[0x18] = 200;
        assert_eq!(geometry(&superblock), None);
    }
}
