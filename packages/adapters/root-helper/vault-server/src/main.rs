//! The plain view of an encrypted vault, for a kernel without dm-crypt:
//!
//! ```text
//!   Btrfs ─ loop device (direct I/O, 4 KiB sectors) ─ a file of one FUSE mount ─ this process ─ the LUKS2 container
//! ```
//!
//! The helper, which is root, has checked the key and the header, and has mounted; what is needed comes as open files. This
//! process opens nothing by itself, has no way to anybody else, and parses nothing but the kernel's own requests.
//!
//! Invariants: one process has a container open, by the kernel's lock, which also tells who it is; what was acknowledged to a
//! flush is on the container's disk; all memory that serving takes is there and locked before the first request, since the
//! kernel may ask us to write in order to have memory; the key is in locked memory that is not dumped, and is overwritten at the end.

mod disk;
mod memory;
mod privileges;
mod sectors;
mod system_calls;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::ExitCode;

use disk::Disk;
use fuser::{Config, Session, SessionACL};
use memory::Key;

#[global_allocator]
static ALLOCATOR: memory::TouchedAllocator = memory::TouchedAllocator;

/// Told to the helper by how we end, before "ready".
const BUSY: u8 = 3;

/// Enough that some wait for the disk while others compute.
const THREADS: usize = 8;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Arguments: the user to run as, where the data begins in the container, and what the helper has left open for us. What follows is
/// for others, who want to know whose we are.
fn run() -> io::Result<ExitCode> {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).take(5).map(|text| text.parse()).collect();
    let Ok([uid, offset, container, fuse, key]) = <[u64; 5]>::try_from(numbers.unwrap_or_default()) else {
        return Err(io::Error::other("this is started by the helper alone"));
    };
    let [container, fuse, key] = [container, fuse, key].map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
    let container = File::from(container);
    privileges::forbid_dumps()?;
    if !lock(&container)? {
        return Ok(BUSY.into());
    }
    memory::lock_all()?;
    privileges::drop_to(u32::try_from(uid).map_err(io::Error::other)?)?;
    let disk = Disk::open(container, offset, &Key::read(key)?, THREADS)?;
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    // Who may use the mount is the kernel's to say: root.
    let session = Session::from_fd(disk, fuse, SessionACL::All, config)?;
    system_calls::confine()?;
    // From here on it can be used, also when the helper is gone that was to be told.
    let _ = io::stdout().write_all(b"ready\n");
    session.run()?;
    Ok(ExitCode::SUCCESS)
}

/// The lock belongs to this process, and ends with it. The kernel tells anybody who asks for it which process that is.
fn lock(container: &File) -> io::Result<bool> {
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    whole.l_type = libc::F_WRLCK as libc::c_short;
    whole.l_whence = libc::SEEK_SET as libc::c_short;
    if unsafe { libc::fcntl(container.as_raw_fd(), libc::F_SETLK, &whole) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EAGAIN) => Ok(false),
        _ => Err(error),
    }
}
