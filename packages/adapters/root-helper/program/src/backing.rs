//! Where a vault's bytes lie: a sparse file that appears as a loop device, or a device that was given to us.
//!
//! A file system is made once, and never over something that may be anybody's. The loop file is made under another name
//! and renamed when it is whole. A device has no second name, so the intention is written down first, with the UUID that
//! the file system will have: a device that an interrupted first open left half-made is told from a foreign one by that.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::config::{Backing, VaultConfig};
use crate::containers::remove_if_there;
use crate::failure::{About, Failure, Result};
use crate::loops::{run, tool};

const LOOP_FILE: &str = "vault.btrfs";
const DEVICE_NOTE: &str = "making-device";
const FORMAT: u32 = 1;
/// What a new vault holds; `store-btrfs` says what lies in them.
const FOLDERS: [&str; 4] = ["images", "lives", "points", "sandboxes"];
const BLANK_CHECK_BYTES: u64 = 1024 * 1024;
const BLKID_FOUND_NOTHING: i32 = 2;
pub const BLOCK_BYTES: u64 = 4096;

/// `struct btrfs_super_block`: at 64 KiB; checksum, file-system UUID, …, magic, …, size, …, label.
const SUPERBLOCK_OFFSET: u64 = 65_536;
const SUPERBLOCK_BYTES: usize = 4096;
const UUID_OFFSET: usize = 32;
const MAGIC_OFFSET: usize = 64;
const MAGIC: &[u8] = b"_BHRfS_M";
const TOTAL_BYTES_OFFSET: usize = 112;
const LABEL_OFFSET: usize = 299;
const LABEL_BYTES: usize = 256;

pub struct Superblock {
    pub uuid: String,
    pub total_bytes: u64,
    label: String,
}

/// The path of the file or device that holds this vault's file system, which is made if there is none yet.
pub fn prepare(vault: &VaultConfig, folder: &Path) -> Result<PathBuf> {
    match &vault.backing {
        Backing::Loop { bytes } => prepare_loop_file(vault, folder, bytes / BLOCK_BYTES * BLOCK_BYTES),
        Backing::Device(device) => prepare_device(vault, folder, device).map(|()| device.clone()),
        Backing::Container => {
            let file = loop_file(folder);
            require_ours(&file, vault).map(|()| file)
        }
    }
}

/// Where the file of a loop vault lies.
pub fn loop_file(folder: &Path) -> PathBuf {
    folder.join(LOOP_FILE)
}

/// Never makes it smaller.
pub fn enlarge(file: &Path, bytes: u64) -> Result<()> {
    let open = File::options().write(true).open(file).about(file.display())?;
    let bytes = bytes / BLOCK_BYTES * BLOCK_BYTES;
    if open.metadata().about(file.display())?.len() < bytes {
        open.set_len(bytes).about(file.display())
    } else {
        Ok(())
    }
}

/// What a vault in a file leaves, whole or half made.
pub fn remove_files(folder: &Path) -> Result<()> {
    for name in [LOOP_FILE.to_owned(), format!("{LOOP_FILE}.new")] {
        remove_if_there(&folder.join(name))?;
    }
    match fs::remove_dir_all(folder.join("content")) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).about(folder.display()),
        _ => Ok(()),
    }
}

pub fn prepare_loop_file(vault: &VaultConfig, folder: &Path, bytes: u64) -> Result<PathBuf> {
    let file = loop_file(folder);
    match File::options().read(true).write(true).open(&file) {
        Ok(found) => {
            require_ours(&file, vault)?;
            drop(found);
            enlarge(&file, bytes)?;
            return Ok(file);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).about(file.display()),
    }
    let half_made = folder.join(format!("{LOOP_FILE}.new"));
    let made = File::options().write(true).create(true).truncate(true).mode(0o600).open(&half_made);
    let made = made.about(half_made.display())?;
    made.set_len(bytes).about(half_made.display())?;
    make_file_system(vault, folder, &half_made, &new_uuid()?, false)?;
    made.sync_all().about(half_made.display())?;
    fs::rename(&half_made, &file).about(file.display())?;
    sync(folder)?;
    Ok(file)
}

fn prepare_device(vault: &VaultConfig, folder: &Path, device: &Path) -> Result<()> {
    if !fs::metadata(device).is_ok_and(|found| found.file_type().is_block_device()) {
        return Err(Failure::unavailable(format!("{} is no block device", device.display())));
    }
    let note = folder.join(DEVICE_NOTE);
    let interrupted = read_note(&note, device)?;
    let superblock = read_superblock(device)?;
    if interrupted.is_none() && superblock.is_some() {
        return require_ours(device, vault);
    }
    let resumable = interrupted.as_ref().is_some_and(|uuid| superblock.is_none_or(|found| found.uuid == *uuid));
    if !resumable {
        require_blank(device)?;
    }
    let uuid = interrupted.map_or_else(new_uuid, Ok)?;
    write_note(&note, &uuid, device)?;
    make_file_system(vault, folder, device, &uuid, resumable)?;
    fs::remove_file(&note).about(note.display())?;
    sync(folder)
}

/// The UUID that an interrupted first open meant to give to this device.
fn read_note(note: &Path, device: &Path) -> Result<Option<String>> {
    match fs::read_to_string(note) {
        Ok(text) => {
            let noted = text.trim_end_matches('\n').split_once(' ').filter(|(_, path)| Path::new(path) == device);
            Ok(noted.map(|(uuid, _)| uuid.into()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).about(note.display()),
    }
}

fn write_note(note: &Path, uuid: &str, device: &Path) -> Result<()> {
    let draft = note.with_extension("new");
    let write = || {
        let mut file = File::create(&draft)?;
        writeln!(file, "{uuid} {}", device.display())?;
        file.sync_all()?;
        fs::rename(&draft, note)
    };
    write().about(note.display())?;
    note.parent().map_or(Ok(()), sync)
}

/// The features are named, so that every version of the tool makes the same file system. Small nodes: the first write into a node
/// that a point shares notes a reference for everything else in it (ADR 47).
pub fn make_file_system(vault: &VaultConfig, folder: &Path, target: &Path, uuid: &str, overwrite: bool) -> Result<()> {
    let content = folder.join("content");
    let remove = || match fs::remove_dir_all(&content) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).about(content.display()),
        _ => Ok(()),
    };
    remove()?;
    let make = || {
        for part in FOLDERS {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(content.join(part))?;
        }
        let name = vault.name.as_str();
        let text = format!("{{\n  \"format\": {FORMAT},\n  \"id\": \"{uuid}\",\n  \"name\": \"{name}\"\n}}\n");
        fs::write(content.join("vault.json"), text)
    };
    make().about(content.display())?;
    let mut command = tool("mkfs.btrfs");
    command.args(["--quiet", "--uuid", uuid, "--label", &label_of(vault)]).arg("--rootdir").arg(&content);
    command.args(["--data", "single", "--metadata", "dup", "--csum", "crc32c"]);
    command.args(["--nodesize", "4096", "--sectorsize", "4096"]);
    command.args(["-O", "extref,skinny-metadata,no-holes", "-R", "free-space-tree"]);
    if overwrite {
        command.arg("--force");
    }
    let made = run(command.arg(target));
    remove()?;
    made.map(drop)
}

fn label_of(vault: &VaultConfig) -> String {
    format!("space:{}", vault.name.as_str())
}

/// By its label; whether it is the very vault is seen from what is in it, by who opens it.
pub fn require_ours(path: &Path, vault: &VaultConfig) -> Result<()> {
    let holds = match read_superblock(path)? {
        Some(superblock) if superblock.label == label_of(vault) => return Ok(()),
        Some(superblock) => format!("a Btrfs file system labelled \"{}\"", superblock.label),
        None => "no vault".into(),
    };
    Err(Failure::unavailable(format!(
        "{} holds {holds} where the vault {} is expected; it is left as it is. Give another path, or empty it yourself",
        path.display(),
        vault.name.as_str()
    )))
}

/// What the Btrfs superblock says; none when there is none.
pub fn read_superblock(path: &Path) -> Result<Option<Superblock>> {
    let mut block = [0; SUPERBLOCK_BYTES];
    match File::open(path).about(path.display())?.read_exact_at(&mut block, SUPERBLOCK_OFFSET) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read.about(path.display())?,
    }
    if !block[MAGIC_OFFSET..].starts_with(MAGIC) {
        return Ok(None);
    }
    let hex: Vec<_> = block[UUID_OFFSET..UUID_OFFSET + 16].iter().map(|byte| format!("{byte:02x}")).collect();
    let label = block[LABEL_OFFSET..LABEL_OFFSET + LABEL_BYTES].split(|byte| *byte == 0).next().unwrap_or_default();
    let mut total = [0; 8];
    total.copy_from_slice(&block[TOTAL_BYTES_OFFSET..TOTAL_BYTES_OFFSET + 8]);
    Ok(Some(Superblock {
        uuid: [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]].map(|part| part.concat()).join("-"),
        total_bytes: u64::from_le_bytes(total),
        label: String::from_utf8_lossy(label).into_owned(),
    }))
}

/// No known signature anywhere, and only zeros where headers and their copies lie: encrypted data has no signature.
fn require_blank(device: &Path) -> Result<()> {
    let probe = tool("blkid").arg("--probe").arg(device).output().about("blkid")?;
    let reason = if probe.status.code() != Some(BLKID_FOUND_NOTHING) {
        format!("has a signature ({})", String::from_utf8_lossy(&probe.stdout).trim())
    } else if is_zero(device)? {
        return Ok(());
    } else {
        "has bytes other than zero at its start or end".into()
    };
    Err(Failure::unavailable(format!(
        "{} {reason}; it is left as it is. Give another device, or wipe it yourself",
        device.display()
    )))
}

fn is_zero(device: &Path) -> Result<bool> {
    let size = run(tool("blockdev").arg("--getsize64").arg(device))?;
    let size: u64 = size.trim().parse().map_err(|_| Failure::unavailable("blockdev did not tell a size"))?;
    let file = File::open(device).about(device.display())?;
    let mut block = vec![0; BLANK_CHECK_BYTES.min(size) as usize];
    for position in [0, size.saturating_sub(BLANK_CHECK_BYTES)] {
        file.read_exact_at(&mut block, position).about(device.display())?;
        if block.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

pub fn new_uuid() -> Result<String> {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").about("a new UUID")?;
    Ok(uuid.trim().into())
}

pub fn sync(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).about(folder.display())
}
