//! The plain view of a container where the kernel has no dm-crypt: a file of a FUSE mount, served by a process of its own, and a
//! loop device on it.
//!
//! Nothing about them is remembered. Who serves a container is whoever has the kernel's lock on it; the mount and the device are
//! read from the kernel. So a view outlives this process, and the next one takes it up.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::cryptsetup;
use crate::failure::{About, Failure, Result, check};
use crate::files::c_path;
use crate::loops;
use crate::mounts;
use crate::processes::Identity;
use crate::secret::Secret;
use crate::wire::readable_by;

const VIEW: &str = "plain";
const MOUNT_TYPE: &std::ffi::CStr = c"fuse.space-vault";
/// As the kernel shows the name of a process, which it cuts.
const PROCESS_NAME: &str = "space-vault-ser";
const BUSY: i32 = 3;
const START_LIMIT: Duration = Duration::from_secs(15);
/// One that was closed goes by itself, within this; and a container that another one has only just closed is free within it.
const END_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);
const STACK_BYTES: usize = 64 * 1024;
const PRIORITY: i32 = -15;
/// Without it the vault is gone: the kernel should look for somebody else first.
const OOM_SCORE: &[u8] = b"-900";

/// The file that shows what is in the container.
pub fn view_in(folder: &Path) -> PathBuf {
    folder.join(VIEW)
}

/// The device that shows it, if a living process serves it.
pub fn found(container: &Path, folder: &Path) -> Result<Option<PathBuf>> {
    let view = view_in(folder);
    if holder(container)?.is_none() || !is_mounted(&view)? {
        return Ok(None);
    }
    Ok(loops::of(&view)?.into_iter().next())
}

/// Takes up what is there, and adds what is missing. The key must be known to be right.
pub fn attach(config: &Config, groups: &[PathBuf], container: &Path, folder: &Path, key: &Secret) -> Result<PathBuf> {
    let view = view_in(folder);
    if !(is_mounted(&view)? && holder(container)?.is_some()) {
        clear(&view)?;
        await_free(container, &view)?;
        serve(config, groups, container, &view, key)?;
    }
    match loops::of(&view)?.into_iter().next() {
        Some(device) => Ok(device),
        None => loops::attach(&view),
    }
}

/// Returns when neither device nor mount nor process is left. What was written must have been flushed.
pub fn detach(container: &Path, folder: &Path) -> Result<()> {
    let view = view_in(folder);
    clear(&view)?;
    let deadline = Instant::now() + END_LIMIT;
    while let Some(server) = holder(container)? {
        if !server.serves(&view) {
            return Ok(());
        }
        if Instant::now() > deadline {
            // Its mount lives on in another mount namespace: whoever has that sees errors from now on.
            server.identity.kill()?;
        }
        sleep(POLL);
    }
    Ok(())
}

/// A process that has the lock of a container.
pub struct Server {
    identity: Identity,
    /// What it was started with: the last is the view that it shows.
    words: Vec<u8>,
}

impl Server {
    fn serves(&self, view: &Path) -> bool {
        let mut words = self.words.strip_suffix(b"\0").unwrap_or_default().rsplit(|byte| *byte == 0);
        words.next().is_some_and(|last| last == view.as_os_str().as_bytes())
    }
}

/// The kernel asks for the size again.
pub fn refresh_size(folder: &Path, device: &Path) -> Result<()> {
    let view = view_in(folder);
    fs::metadata(&view).about(view.display())?;
    loops::refresh_size(device)
}

/// Nobody has a view open but a loop device, and tools of a helper that was killed, which end with it: those are waited for.
fn clear(view: &Path) -> Result<()> {
    loops::detach(view)?;
    let deadline = Instant::now() + END_LIMIT;
    while is_mounted(view)? {
        if let Err(failure) = mounts::unmount(view) {
            if Instant::now() > deadline {
                return Err(failure);
            }
            sleep(POLL);
        }
    }
    Ok(())
}

fn is_mounted(view: &Path) -> Result<bool> {
    Ok(mounts::read()?.iter().any(|mount| mount.target == view))
}

/// The process that has the lock of the container.
pub fn holder(container: &Path) -> Result<Option<Server>> {
    let file = File::options().read(true).write(true).open(container).about(container.display())?;
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    whole.l_type = libc::F_WRLCK as libc::c_short;
    whole.l_whence = libc::SEEK_SET as libc::c_short;
    check("the lock of a container", unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut whole) }.into())?;
    if whole.l_type == libc::F_UNLCK as libc::c_short {
        return Ok(None);
    }
    if whole.l_pid <= 0 {
        // A process that cannot be seen from here.
        return Err(busy(container));
    }
    let name = fs::read_to_string(format!("/proc/{}/comm", whole.l_pid)).unwrap_or_default();
    match Identity::of(whole.l_pid)? {
        Some(identity) if name.trim_end() == PROCESS_NAME => {
            let words = fs::read(format!("/proc/{}/cmdline", identity.pid)).unwrap_or_default();
            Ok(Some(Server { identity, words }))
        }
        // It has just ended.
        None => holder(container),
        Some(_) => Err(busy(container)),
    }
}

fn busy(container: &Path) -> Failure {
    Failure::new("vault_busy", format!("{} is open elsewhere", container.display()))
}

/// Of one of our own that has not ended yet.
fn await_free(container: &Path, view: &Path) -> Result<()> {
    let deadline = Instant::now() + END_LIMIT;
    while let Some(server) = holder(container)? {
        if !server.serves(view) || Instant::now() > deadline {
            return Err(busy(container));
        }
        sleep(POLL);
    }
    Ok(())
}

fn serve(config: &Config, groups: &[PathBuf], container: &Path, view: &Path, key: &Secret) -> Result<()> {
    let offset = cryptsetup::data_offset(container)?;
    let direct = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(container);
    let fuse = File::options().read(true).write(true).open("/dev/fuse").about("/dev/fuse")?;
    let lent: [OwnedFd; 3] = [direct.about(container.display())?.into(), fuse.into(), key.pipe()?];
    mount(&lent[1], view)?;
    let started = start(config, groups, (offset, view), &lent);
    drop(lent);
    if started.is_err() {
        // The failure of the start is the one to report.
        let _ = clear(view);
    }
    started
}

/// Root alone may use it.
fn mount(fuse: &OwnedFd, view: &Path) -> Result<()> {
    File::options().append(true).create(true).mode(0o600).open(view).about(view.display())?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_NOATIME;
    let options = format!("fd={},rootmode=100600,user_id=0,group_id=0", fuse.as_raw_fd());
    let (target, options) = (c_path(view), CString::new(options).unwrap_or_default());
    let source = c"space-vault".as_ptr();
    let done = unsafe { libc::mount(source, target.as_ptr(), MOUNT_TYPE.as_ptr(), flags, options.as_ptr().cast()) };
    check(format!("mounting {}", view.display()), done.into()).map(drop)
}

fn start(config: &Config, groups: &[PathBuf], (offset, view): (u64, &Path), lent: &[OwnedFd; 3]) -> Result<()> {
    let mut command = Command::new(&config.vault_server);
    command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.arg(config.server_uid().to_string()).arg(offset.to_string());
    let numbers = lent.each_ref().map(AsRawFd::as_raw_fd);
    command.args(numbers.map(|number| number.to_string())).arg(view);
    let groups: Vec<_> = groups.iter().map(|procs| c_path(procs)).collect();
    unsafe { command.pre_exec(move || detach_from_us(&numbers, &groups)) };
    let mut server = command.spawn().about(config.vault_server.display())?;
    let ready = await_ready(&mut server);
    if ready.is_err() {
        let _ = server.kill();
        let code = server.wait().ok().and_then(|status| status.code());
        let mut said = String::new();
        let _ = server.stderr.take().map(|mut from| from.read_to_string(&mut said));
        return match code {
            Some(BUSY) => Err(Failure::new("vault_busy", "the container is open elsewhere")),
            _ => Err(Failure::unavailable(format!("the vault server did not start: {}", said.trim()))),
        };
    }
    // Somebody must take note of its end, for as long as it is our child.
    let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || server.wait());
    Ok(())
}

/// It outlives us, holds nothing of ours but what it was lent (not the turn that the vault has now), and is in no tenant's group.
fn detach_from_us(lent: &[i32], groups: &[CString]) -> std::io::Result<()> {
    let done = |result: i32| if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) };
    done(unsafe { libc::setsid() })?;
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    done(unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, flags) } as i32)?;
    for fd in lent {
        done(unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) })?;
    }
    for procs in groups {
        write_to(procs, b"0");
    }
    write_to(c"/proc/self/oom_score_adj", OOM_SCORE);
    // Of those in the same group, where there are groups; else of all.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, PRIORITY) };
    Ok(())
}

/// Between fork and exec: plain system calls only. What cannot be written is done without.
fn write_to(path: &std::ffi::CStr, text: &[u8]) {
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if fd >= 0 {
        unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
        unsafe { libc::close(fd) };
    }
}

fn await_ready(server: &mut Child) -> Result<()> {
    let mut stdout = server.stdout.take().ok_or_else(|| Failure::new("internal", "the vault server has no output"))?;
    let mut first = [0];
    if readable_by(&stdout, Instant::now() + START_LIMIT)? && stdout.read(&mut first).about("the vault server")? == 1 {
        return Ok(());
    }
    Err(Failure::unavailable("the vault server did not start"))
}
