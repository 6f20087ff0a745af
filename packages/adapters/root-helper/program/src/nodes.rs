//! After a point, a life shares the nodes of the file system with it, and the first write beneath a shared one is dear. Here
//! the kernel is told that some pages of the life are as they are in the point. It compares them itself, while it keeps
//! writers out, and where they are equal it notes anew where they lie: the node is the life's own then, and no byte of any
//! file has changed. Where they differ, or somebody was faster, nothing happens.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::config::VaultConfig;
use crate::failure::{About, Failure, Result, check};
use crate::files::{open_beneath, open_folder};
use crate::names::{LifeId, SnapshotId, number};

/// In one call: so many nodes at most are written anew before others get their turn.
const MOST_PAGES: usize = 32;
const PAGE_BYTES: u64 = 4096;
/// `FIDEDUPERANGE`.
const DEDUPE: libc::c_ulong = 0xc018_9436;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Disk,
    Memory,
}

impl Part {
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "disk" => Ok(Self::Disk),
            "memory" => Ok(Self::Memory),
            _ => Err(Failure::refused("that is no file of a life")),
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Disk => "disk.img",
            Self::Memory => "memory",
        }
    }
}

/// Numbers of pages of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages(Vec<u32>);

impl Pages {
    pub fn parse(words: &[&str]) -> Result<Self> {
        if (1..=MOST_PAGES).contains(&words.len()) {
            return Ok(Self(words.iter().map(|word| number(word)).collect::<Result<_>>()?));
        }
        Err(Failure::refused("those are too many pages, or none"))
    }
}

/// `struct file_dedupe_range` with one `file_dedupe_range_info`.
#[repr(C)]
struct Dedupe {
    source_offset: u64,
    length: u64,
    count: u16,
    reserved: [u16; 3],
    target: i64,
    target_offset: u64,
    done_bytes: u64,
    status: i32,
    reserved_too: u32,
}

/// How many of them were equal.
pub fn part(vault: &VaultConfig, life: &LifeId, point: &SnapshotId, part: Part, pages: &Pages) -> Result<usize> {
    let root = open_folder(&vault.mount_point())?;
    let open = |kind: &str, id: &str| -> Result<File> {
        let name = format!("{kind}/{id}");
        let folder = open_beneath(&root, &name, libc::O_RDONLY | libc::O_DIRECTORY).about(&name)?;
        open_beneath(&folder, part.file(), libc::O_RDONLY).about(&name)
    };
    let (source, target) = (open("points", point.as_str())?, open("lives", life.as_str())?);
    let mut equal = 0;
    for page in &pages.0 {
        if is_made_one(&source, &target, u64::from(*page) * PAGE_BYTES)? {
            equal += 1;
        }
    }
    Ok(equal)
}

fn is_made_one(source: &File, target: &File, offset: u64) -> Result<bool> {
    let mut asked = Dedupe {
        source_offset: offset,
        length: PAGE_BYTES,
        count: 1,
        reserved: [0; 3],
        target: target.as_raw_fd().into(),
        target_offset: offset,
        done_bytes: 0,
        status: 0,
        reserved_too: 0,
    };
    let result = unsafe { libc::ioctl(source.as_raw_fd(), DEDUPE, &mut asked) };
    check("comparing pages", result.into())?;
    if asked.status < 0 {
        return Err(std::io::Error::from_raw_os_error(-asked.status)).about("comparing pages");
    }
    Ok(asked.status == 0 && asked.done_bytes == PAGE_BYTES)
}
