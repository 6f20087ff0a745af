//! Loop devices: a file seen as a block device. Whether one is there is always read from the kernel, never remembered.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::{About, Failure, Result};

/// Two processes that attach at once can pick the same free device; the loser tries again.
const ATTACH_ATTEMPTS: usize = 5;
const DETACH_WAIT: Duration = Duration::from_secs(5);
const DETACH_POLL: Duration = Duration::from_millis(20);

/// The devices on which this very file is attached. `file` has no symbolic links in it.
pub fn of(file: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in fs::read_dir("/sys/block").about("/sys/block")?.flatten() {
        let name = entry.file_name();
        // A deleted file's name ends with " (deleted)", so it never equals that of its successor.
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end_matches('\n')) == file {
            found.push(Path::new("/dev").join(name));
        }
    }
    Ok(found)
}

/// Direct I/O, so that the host does not cache everything twice; 4 KiB sectors let it be direct on every host disk.
pub fn attach(file: &Path) -> Result<PathBuf> {
    let variants: [&[&str]; 3] = [&["--direct-io=on", "--sector-size", "4096"], &["--direct-io=on"], &[]];
    let mut last = String::new();
    for options in variants {
        for _ in 0..ATTACH_ATTEMPTS {
            match run(tool("losetup").args(["--find", "--show"]).args(options).arg(file)) {
                Ok(device) => return Ok(device.trim().into()),
                Err(failure) => last = failure.detail,
            }
            if !last.to_lowercase().contains("busy") {
                break;
            }
        }
    }
    Err(Failure::unavailable(format!("no loop device could be attached to {}: {last}", file.display())))
}

/// Few at a time are given to a loop device, and those that wait meanwhile are sorted and joined: a thousand pages that lie side by side
/// then are some dozen requests, also where each came alone, or those of the two copies of a tree in turns. Without that each is a request
/// of its own to the disk below, and to whoever decrypts. Where the kernel has no such scheduler, writing takes longer, and that is all.
/// What other devices have is left to whoever gave it.
pub fn join_requests(device: &Path) {
    const SCHEDULER: &str = "mq-deadline";
    const AT_ONCE: &str = "8";
    let Some(name) = device.file_name() else { return };
    let folder = Path::new("/sys/block").join(name);
    if folder.join("loop").exists() {
        // How many the device is given can be said only while it has no scheduler; with one, it is how many may wait there.
        for (file, value) in [("scheduler", "none"), ("nr_requests", AT_ONCE), ("scheduler", SCHEDULER)] {
            let _ = fs::write(folder.join("queue").join(file), value);
        }
    }
}

/// Tells the kernel that the file has grown.
pub fn refresh_size(device: &Path) -> Result<()> {
    run(tool("losetup").arg("--set-capacity").arg(device)).map(drop)
}

/// How large the kernel says that a device is.
pub fn bytes_of(device: &Path) -> Result<u64> {
    const UNIT: u64 = 512;
    let name = device.file_name().unwrap_or_default();
    let text = fs::read_to_string(Path::new("/sys/class/block").join(name).join("size")).about(device.display())?;
    let units: u64 = text.trim().parse().map_err(|_| Failure::unavailable("the kernel did not tell a size"))?;
    Ok(units * UNIT)
}

/// Detaches every device of the file and returns when the kernel shows none. A mount in another mount namespace keeps one
/// alive, and then this fails: the vault is not closed while anything can still reach it.
pub fn detach(file: &Path) -> Result<()> {
    let deadline = Instant::now() + DETACH_WAIT;
    loop {
        let devices = of(file)?;
        if devices.is_empty() {
            return Ok(());
        }
        // A failure here is judged by whether the device is gone at the next look.
        devices.iter().for_each(|device| drop(run(tool("losetup").arg("--detach").arg(device))));
        if of(file)?.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let names: Vec<_> = devices.iter().map(|device| device.display().to_string()).collect();
            let detail = format!("{} is still in use, perhaps in another mount namespace", names.join(", "));
            return Err(Failure::unavailable(detail));
        }
        sleep(DETACH_POLL);
    }
}

/// A program of the system, whatever the environment says. It ends with us, so that nothing is done twice at a time.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/").stdin(Stdio::null());
    let end_with_us = || match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    unsafe { command.pre_exec(end_with_us) };
    command
}

/// What it prints; how it failed, when it did.
pub fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().about(&name)?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Failure::unavailable(format!("{name} failed ({}): {}", done.status, said.trim())))
}
