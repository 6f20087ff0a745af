//! The cgroup v2 tree of the guest:
//!
//! ```text
//! <root>/agent                 the agent (as PID 1), out of reach of the limits below
//! <root>/user                  every user process; what Freeze freezes
//! <root>/user/<process id>     one command with all that it has started
//! ```
//!
//! All access goes through directory descriptors opened at start, so that mounts and unmounts by guest root change nothing.
//! Limits keep room for the agent: a fork bomb or a memory hog ends inside `user`.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::descriptor::watch;
use crate::errno::check;
use crate::files::Directory;
use crate::log;
use crate::pressure::Memory;

/// Kept back from `user` for the kernel and the agent.
const RESERVED_MEMORY_BYTES: u64 = 40 << 20;
const RESERVED_PIDS: u64 = 64;
const MAX_CPU_WEIGHT: &[u8] = b"10000";
/// Most of the kernel's files are shorter than the first, and all are than the second.
const READ_BYTES: usize = 1 << 10;
const READ_MAX_BYTES: u64 = 4 << 20;
/// Deeper trees than this are counted and removed only down to here.
const MAX_DEPTH: usize = 16;
/// The kernel tells of a change; looking again after this long covers one that came before we listened.
const RECHECK: Duration = Duration::from_millis(1);
/// Of the cgroup of a command of which the agent ended a process for want of memory. Only root sets or sees it.
const ENDED: &CStr = c"trusted.space.ended";

/// Cgroups of ended commands that stay for a while, since something is in memory on their account.
const RETIRED: usize = 32;
/// What is more than this is worth the cgroup that holds it.
const LITTLE_BYTES: u64 = 4 << 20;

/// The `user` cgroup.
pub struct Cgroups {
    /// Where the agent is; none when it is not PID 1.
    agent: Option<OwnedFd>,
    user: OwnedFd,
    freeze: File,
    events: Events,
    pids_per_process: Option<u64>,
    proc: File,
    retired: Arc<Retired>,
}

impl Cgroups {
    /// Makes the tree below an existing cgroup v2 directory. As PID 1 the caller also moves into `agent` and limits `user`.
    pub fn create(root: &Path, with_limits: bool) -> io::Result<Self> {
        let root = open_directory(root)?;
        let mut pids_per_process = None;
        let mut own = None;
        if with_limits {
            let agent = make_directory(root.as_fd(), "agent")?;
            write(agent.as_fd(), "cgroup.procs", b"0")?;
            for controller in ["+cpu", "+memory", "+pids"] {
                // A kernel without a controller has no such limit.
                let _ = write(root.as_fd(), "cgroup.subtree_control", controller.as_bytes());
            }
            // However many user processes want the processor, the agent gets it first.
            let _ = write(agent.as_fd(), "cpu.weight", MAX_CPU_WEIGHT);
            own = Some(agent);
        }
        let user = make_directory(root.as_fd(), "user")?;
        if with_limits {
            pids_per_process = limit(user.as_fd())
                .inspect_err(|e| log::error(&format!("user processes have no limits: {e}")))
                .unwrap_or(None);
        }
        let freeze = open(user.as_fd(), "cgroup.freeze", libc::O_RDWR)?;
        let events = Events::open(user.as_fd())?;
        let proc = open_directory(Path::new("/proc"))?;
        Ok(Self { agent: own, user, freeze, events, pids_per_process, proc, retired: Arc::default() })
    }

    /// What the kernel was last told, by whomever.
    pub fn is_freezing(&self) -> io::Result<bool> {
        let mut byte = [0];
        self.freeze.read_exact_at(&mut byte, 0)?;
        Ok(byte[0] == b'1')
    }

    pub fn is_frozen(&self) -> io::Result<bool> {
        Ok(self.events.read()?.frozen)
    }

    /// Returns once every process is stopped; after `limit` it thaws again and says `TimedOut`.
    pub async fn freeze(&self, limit: Duration) -> io::Result<()> {
        let deadline = Instant::now() + limit;
        // Guest root may have moved the agent among its processes, and who is frozen thaws nobody. To move takes the kernel
        // some 10 ms, and user processes stand still meanwhile; so only what is not where it belongs is moved.
        if let Some(agent) = &self.agent {
            if !is_alone_in(agent.as_fd())? {
                write(agent.as_fd(), "cgroup.procs", b"0")?;
            }
        }
        self.freeze.write_all_at(b"1", 0)?;
        while !self.events.read()?.frozen {
            if Instant::now() >= deadline {
                self.thaw()?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            let _ = timeout(RECHECK, self.events.changed()).await;
        }
        Ok(())
    }

    pub fn thaw(&self) -> io::Result<()> {
        self.freeze.write_all_at(b"0", 0)?;
        if self.is_freezing()? { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }

    /// Threads, as the kernel counts them. Where it doesn't, processes: to look through all cgroups, those of ended commands among
    /// them, can take longer than the freeze.
    pub fn count(&self) -> u32 {
        let counted = read(self.user.as_fd(), "pids.current").ok().and_then(|text| text.trim().parse().ok());
        counted.unwrap_or_else(|| count(self.user.as_fd(), MAX_DEPTH))
    }

    pub fn create_process(&self, id: &str) -> io::Result<ProcessCgroup> {
        let name = CString::new(id)?;
        self.retired.forget(&name);
        let directory = make_directory(self.user.as_fd(), id)?;
        if let Some(pids) = self.pids_per_process {
            let _ = write(directory.as_fd(), "pids.max", pids.to_string().as_bytes());
        }
        let events = Events::open(directory.as_fd())?;
        Ok(ProcessCgroup {
            parent: self.user.try_clone()?,
            name,
            directory,
            events,
            removed: Notify::new(),
            retired: self.retired.clone(),
        })
    }

    /// What the kernel tells stalls by, for want of memory.
    pub fn open_pressure(&self) -> io::Result<File> {
        open(self.user.as_fd(), "memory.pressure", libc::O_RDWR | libc::O_NONBLOCK)
    }

    pub fn memory(&self) -> io::Result<Memory> {
        let limit = read(self.user.as_fd(), "memory.max")?;
        // Without a limit the file says "max".
        let limit_bytes = limit.trim().parse().unwrap_or(u64::MAX);
        Ok(Memory { held_bytes: held_bytes(self.user.as_fd())?, limit_bytes })
    }

    /// SIGKILL for the process that holds most memory, in the command that does; or for all of the command, as told by
    /// its size and the command's.
    pub fn end_largest(&self, ends_command: impl Fn(u64, u64) -> bool) -> io::Result<()> {
        let commands = children(self.user.as_fd(), 1).filter_map(|(name, command)| {
            let mut all = Vec::new();
            tree_pids(command.as_fd(), MAX_DEPTH, &mut all);
            let bytes = held_bytes(command.as_fd()).ok()?;
            let largest = all.into_iter().map(|pid| (resident_bytes(self.proc.as_fd(), pid), pid)).max()?;
            Some((bytes, largest, name, command))
        });
        let largest = commands.max_by_key(|(bytes, ..)| *bytes);
        let Some((command_bytes, (largest_bytes, pid), name, command)) = largest else { return Ok(()) };
        log::error(&format!("{}: ended for want of memory", name.to_string_lossy()));
        // Before the kill, so that whoever tells the end knows its cause.
        mark_ended(command.as_fd())?;
        if ends_command(largest_bytes, command_bytes) {
            write(command.as_fd(), "cgroup.kill", b"1")
        } else {
            check(unsafe { libc::kill(pid, libc::SIGKILL) }).map(drop)
        }
    }
}

/// The cgroup of one command.
pub struct ProcessCgroup {
    parent: OwnedFd,
    name: CString,
    directory: OwnedFd,
    events: Events,
    removed: Notify,
    retired: Arc<Retired>,
}

impl ProcessCgroup {
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub fn count(&self) -> u32 {
        count(self.directory.as_fd(), MAX_DEPTH)
    }

    /// SIGKILL for the whole tree at once, so that no process can escape by forking; returns when none is left.
    pub async fn kill(&self) -> io::Result<()> {
        // Opened anew, because reading the file takes its news from whoever else waits on the same descriptor.
        let events = Events::open(self.directory.as_fd())?;
        write(self.directory.as_fd(), "cgroup.kill", b"1")?;
        tokio::select! {
            emptied = events.empty() => emptied,
            // The kernel is late with its news now and then, and has none once the cgroup is removed.
            () = self.removed.notified() => Ok(()),
        }
    }

    pub fn signal(&self, signal: i32) -> io::Result<()> {
        signal_tree(self.directory.as_fd(), signal, MAX_DEPTH)
    }

    /// Whether any process of the tree was killed for want of memory, by the kernel or by us.
    pub fn was_hit_by_oom_killer(&self) -> bool {
        if is_marked_ended(self.directory.as_fd()) {
            return true;
        }
        // Without the controller nobody knows; the exit is true all the same.
        let text = read(self.directory.as_fd(), "memory.events").unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count != "0")
    }

    /// Waits until no live process is left; for one waiter only.
    pub async fn empty(&self) -> io::Result<()> {
        self.events.empty().await
    }

    pub fn remove(&self) {
        self.retired.take_in(self.parent.as_fd(), &self.name);
        self.removed.notify_waiters();
    }
}

/// The cgroups of ended commands on whose account files are in memory, oldest first. Removed, such a cgroup would live on
/// inside of the kernel, which takes it 17 KiB, until its last page is dropped: in a guest with memory to spare, for ever. So
/// the last few stay; of those before, what is little is dropped with them.
#[derive(Default)]
struct Retired(Mutex<VecDeque<CString>>);

impl Retired {
    fn take_in(&self, user: BorrowedFd, name: &CStr) {
        if on_account_bytes(user, name) == 0 {
            return remove(user, name, MAX_DEPTH);
        }
        let mut names = self.lock();
        names.push_back(name.to_owned());
        while names.len() > RETIRED {
            let Some(oldest) = names.pop_front() else { return };
            let bytes = on_account_bytes(user, &oldest);
            if bytes <= LITTLE_BYTES {
                // What is in use or not on the disk yet stays: then so does the cgroup, inside of the kernel.
                let _ = open_at(user, &oldest, libc::O_RDONLY | libc::O_DIRECTORY)
                    .and_then(|directory| write(directory.as_fd(), "memory.reclaim", bytes.to_string().as_bytes()));
            }
            remove(user, &oldest, MAX_DEPTH);
        }
    }

    /// The name is a living command's.
    fn forget(&self, name: &CStr) {
        self.lock().retain(|retired| retired.as_c_str() != name);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<CString>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 0 where nobody counts.
fn on_account_bytes(user: BorrowedFd, name: &CStr) -> u64 {
    let directory = open_at(user, name, libc::O_RDONLY | libc::O_DIRECTORY);
    let text = directory.and_then(|directory| read(directory.as_fd(), "memory.current")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

struct State {
    populated: bool,
    frozen: bool,
}

/// `cgroup.events`, whose changes the kernel reports as priority events.
struct Events {
    file: AsyncFd<File>,
}

impl Events {
    fn open(directory: BorrowedFd) -> io::Result<Self> {
        let file = open(directory, "cgroup.events", libc::O_RDONLY | libc::O_NONBLOCK)?;
        Ok(Self { file: watch(file, Interest::PRIORITY)? })
    }

    fn read(&self) -> io::Result<State> {
        let mut buffer = [0; 128];
        let length = self.file.get_ref().read_at(&mut buffer, 0)?;
        let has = |line: &[u8]| buffer[..length].split(|b| *b == b'\n').any(|l| l == line);
        Ok(State { populated: has(b"populated 1"), frozen: has(b"frozen 1") })
    }

    async fn empty(&self) -> io::Result<()> {
        loop {
            match self.read() {
                Ok(State { populated: true, .. }) => self.changed().await?,
                Ok(_) => return Ok(()),
                // The cgroup is gone, and only an empty one can go.
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    async fn changed(&self) -> io::Result<()> {
        self.file.ready(Interest::PRIORITY).await?.clear_ready();
        Ok(())
    }
}

fn limit(user: BorrowedFd) -> io::Result<Option<u64>> {
    let memory_bytes = memory_available_bytes()?.saturating_sub(RESERVED_MEMORY_BYTES);
    write(user, "memory.max", memory_bytes.to_string().as_bytes())?;
    let threads: u64 = std::fs::read_to_string("/proc/sys/kernel/threads-max")?.trim().parse().unwrap_or(1024);
    let all = threads.saturating_sub(2 * RESERVED_PIDS).max(RESERVED_PIDS);
    write(user, "pids.max", all.to_string().as_bytes())?;
    // Commands share the processor evenly, however many processes one of them has.
    let _ = write(user, "cgroup.subtree_control", b"+cpu");
    // Tells whose process the OOM killer has killed; the limit is that of `user`.
    let _ = write(user, "cgroup.subtree_control", b"+memory");
    write(user, "cgroup.subtree_control", b"+pids")?;
    // One command can't take the last of them, so there is always room for another that kills it.
    Ok(Some(all.saturating_sub(RESERVED_PIDS).max(RESERVED_PIDS / 2)))
}

/// At boot: what the kernel doesn't hold itself.
fn memory_available_bytes() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map(|n| n << 10).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Of a cgroup: what can be had back only by the end of a process, or of a file in memory. The kernel's own counts: a
/// thousand small programs are mostly that.
fn held_bytes(directory: BorrowedFd) -> io::Result<u64> {
    let stat = read(directory, "memory.stat")?;
    let of = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap_or(0);
    Ok(of("anon ") + of("shmem ") + of("kernel ").saturating_sub(of("slab_reclaimable ")))
}

/// 0 of one that is gone.
fn resident_bytes(proc: BorrowedFd, pid: i32) -> u64 {
    let status = read(proc, &format!("{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}

fn mark_ended(command: BorrowedFd) -> io::Result<()> {
    let nothing = [0u8; 0];
    check(unsafe { libc::fsetxattr(command.as_raw_fd(), ENDED.as_ptr(), nothing.as_ptr().cast(), 0, 0) }).map(drop)
}

fn is_marked_ended(command: BorrowedFd) -> bool {
    unsafe { libc::fgetxattr(command.as_raw_fd(), ENDED.as_ptr(), std::ptr::null_mut(), 0) >= 0 }
}

fn tree_pids(directory: BorrowedFd, depth: usize, into: &mut Vec<i32>) {
    into.extend(pids(directory).unwrap_or_default());
    for (_, child) in children(directory, depth) {
        tree_pids(child.as_fd(), depth - 1, into);
    }
}

fn read(directory: BorrowedFd, name: &str) -> io::Result<String> {
    // Such a file has no length to ask for.
    let mut text = String::with_capacity(READ_BYTES);
    open(directory, name, libc::O_RDONLY)?.take(READ_MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn count(directory: BorrowedFd, depth: usize) -> u32 {
    let own = pids(directory).map_or(0, |pids| pids.len() as u32);
    own + children(directory, depth).map(|(_, child)| count(child.as_fd(), depth - 1)).sum::<u32>()
}

fn signal_tree(directory: BorrowedFd, signal: i32, depth: usize) -> io::Result<()> {
    for pid in pids(directory)? {
        // One that is gone already needs no signal.
        let _ = check(unsafe { libc::kill(pid, signal) });
    }
    for (_, child) in children(directory, depth) {
        signal_tree(child.as_fd(), signal, depth - 1)?;
    }
    Ok(())
}

/// Leaves first; a cgroup that is still in use stays.
fn remove(parent: BorrowedFd, name: &CStr, depth: usize) {
    let rmdir = || check(unsafe { libc::unlinkat(parent.as_raw_fd(), name.as_ptr(), libc::AT_REMOVEDIR) });
    if rmdir().is_ok() {
        return;
    }
    if let Ok(directory) = open_at(parent, name, libc::O_RDONLY | libc::O_DIRECTORY) {
        for (child, _) in children(directory.as_fd(), depth) {
            remove(directory.as_fd(), &child, depth - 1);
        }
        let _ = rmdir();
    }
}

fn pids(directory: BorrowedFd) -> io::Result<Vec<i32>> {
    Ok(read(directory, "cgroup.procs")?.lines().filter_map(|line| line.parse().ok()).collect())
}

fn children(directory: BorrowedFd, depth: usize) -> impl Iterator<Item = (CString, File)> {
    let names = if depth == 0 { None } else { Directory::at(directory).and_then(|at| at.names()).ok() };
    let directories = names.into_iter().flat_map(|names| {
        let all = (0..).map_while(|index| names.get(index).map(|(name, is_directory)| (name.to_owned(), is_directory)));
        all.filter_map(|(name, is_directory)| is_directory.then_some(name)).collect::<Vec<_>>()
    });
    directories.filter_map(move |name| {
        open_at(directory, &name, libc::O_RDONLY | libc::O_DIRECTORY).ok().map(|file| (name, file))
    })
}

fn open_directory(path: &Path) -> io::Result<File> {
    File::open(path)
}

fn make_directory(parent: BorrowedFd, name: &str) -> io::Result<OwnedFd> {
    let path = CString::new(name)?;
    match check(unsafe { libc::mkdirat(parent.as_raw_fd(), path.as_ptr(), 0o755) }) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    open(parent, name, libc::O_RDONLY | libc::O_DIRECTORY).map(OwnedFd::from)
}

fn open(directory: BorrowedFd, name: &str, flags: i32) -> io::Result<File> {
    open_at(directory, &CString::new(name)?, flags)
}

fn open_at(directory: BorrowedFd, name: &CStr, flags: i32) -> io::Result<File> {
    let fd = check(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC) })?;
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Whether this process is in the cgroup, and no other.
fn is_alone_in(directory: BorrowedFd) -> io::Result<bool> {
    let mut listed = [0; 32];
    let length = open(directory, "cgroup.procs", libc::O_RDONLY)?.read(&mut listed)?;
    Ok(listed[..length] == *format!("{}\n", std::process::id()).as_bytes())
}

fn write(directory: BorrowedFd, name: &str, value: &[u8]) -> io::Result<()> {
    open(directory, name, libc::O_WRONLY)?.write_all(value)
}
