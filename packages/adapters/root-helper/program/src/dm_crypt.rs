//! The plain view of a container by the kernel's own dm-crypt.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::cryptsetup;
use crate::failure::{About, Result};
use crate::loops::{self, run, tool};
use crate::secret::Secret;

const PROBE_BYTES: u64 = 4 * 1024 * 1024;

/// Whether it works here, found out by doing it, once: that a control device is there says nothing.
pub fn works(folder: &Path) -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let _ = run(tool("modprobe").args(["--quiet", "dm-crypt"]));
        has_device_mapper() && probe(folder).is_ok()
    })
}

/// Without it there is nothing to try. The node of its device is there also where the kernel has nothing behind it.
fn has_device_mapper() -> bool {
    fs::read_to_string("/proc/misc").is_ok_and(|text| text.lines().any(|line| line.ends_with(" device-mapper")))
}

fn probe(folder: &Path) -> Result<()> {
    let file = folder.join("dm-crypt-probe");
    let made = File::create(&file).and_then(|file| file.set_len(PROBE_BYTES)).about(file.display());
    let tried = made
        .and_then(|()| loops::attach(&file))
        .and_then(|device| cryptsetup::try_mapping(&device, &format!("space-probe-{}", std::process::id())));
    let _ = loops::detach(&file);
    let _ = fs::remove_file(&file);
    tried
}

/// The device of a container that is open.
pub fn found(container: &Path) -> Result<Option<PathBuf>> {
    if !has_device_mapper() {
        return Ok(None);
    }
    Ok(device_named(&name_of(container)?))
}

/// The key must be known to be right.
pub fn attach(container: &Path, key: &Secret) -> Result<PathBuf> {
    let name = name_of(container)?;
    if device_named(&name).is_none() {
        let device = match loops::of(container)?.into_iter().next() {
            Some(device) => device,
            None => loops::attach(container)?,
        };
        loops::join_requests(&device);
        cryptsetup::open_mapping(&device, &name, key)?;
    }
    device_named(&name).ok_or_else(|| crate::failure::Failure::unavailable("the kernel shows no device of that name"))
}

pub fn detach(container: &Path) -> Result<()> {
    let name = name_of(container)?;
    if device_named(&name).is_some() {
        cryptsetup::close_mapping(&name)?;
    }
    loops::detach(container)
}

/// By what the container calls itself, so that no two share one.
fn name_of(container: &Path) -> Result<String> {
    Ok(format!("space-{}", cryptsetup::uuid_of(container)?))
}

fn device_named(name: &str) -> Option<PathBuf> {
    fs::read_dir("/sys/block").ok()?.flatten().find_map(|entry| {
        let found = fs::read_to_string(entry.path().join("dm/name")).ok()?;
        (found.trim_end() == name).then(|| Path::new("/dev").join(entry.file_name()))
    })
}
