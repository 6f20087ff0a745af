//! Kernel modules from the initramfs, in the order that `/modules/order` gives: one file name per line, what others depend on
//! first. A module that is there already is fine; any other failure ends the boot, since the guest would lack a device.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::BootResult;
use crate::errno::check;

const NO_PARAMETERS: &CStr = c"";

pub fn load_all(directory: &Path) -> BootResult<()> {
    let order = directory.join("order");
    let text = match std::fs::read_to_string(&order) {
        Ok(text) => text,
        // A kernel with everything built in needs none.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(format!("{}: {e}", order.display())),
    };
    names(&text)?.try_for_each(|name| load(&directory.join(name)).map_err(|e| format!("module {name}: {e}")))
}

fn names(text: &str) -> BootResult<impl Iterator<Item = &str>> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    match lines().find(|line| line.contains('/')) {
        Some(bad) => Err(format!("module order: {bad:?} is not a file name")),
        None => Ok(lines()),
    }
}

fn load(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let loaded = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), NO_PARAMETERS.as_ptr(), 0) };
    match check(loaded) {
        Err(e) if e.raw_os_error() != Some(libc::EEXIST) => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_the_files_order() {
        let text = "# first\nvirtio_ring.ko\n\n  virtio.ko \nvirtio_blk.ko\n";
        let names: Vec<_> = names(text).unwrap().collect();
        assert_eq!(names, ["virtio_ring.ko", "virtio.ko", "virtio_blk.ko"]);
    }

    #[test]
    fn a_path_is_no_module_name() {
        assert!(names("a.ko\n../b.ko").is_err());
    }

    #[test]
    fn no_order_file_means_no_modules() {
        assert_eq!(load_all(Path::new("/nonexistent")), Ok(()));
    }
}
