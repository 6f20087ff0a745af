//! The VMMs: started by the launcher in jails of their own, given the files of a life, ended, and cleared away.
//!
//! Invariants: uid and cgroups are taken for a run folder before its process starts, and are free again once the folder is
//! removed, which follows the proof of death. Files of a life are given to one VMM, by way of a connection that leads to it.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cgroups::{Cgroups, Limits, MAX_TASKS};
use crate::config::{Accelerator, Config, Kind, Mode};
use crate::failure::{About, Failure, Result};
use crate::files::{open_beneath, open_folder, own, peer_of, require_socket};
use crate::names::{LifeId, PlaceName, RunName};
use crate::processes::Identity;
use crate::run_folders::RunFolders;
use crate::uids::{Uids, uid_of};
use crate::wire;

const START_LIMIT: Duration = Duration::from_secs(15);
/// The VMM takes in what was sent to it when its main loop comes round.
const PASS_LIMIT: Duration = Duration::from_secs(5);
const PASS_POLL: Duration = Duration::from_micros(100);
const MIB: u64 = 1024 * 1024;
const LONGEST_RECORD: usize = 200;
/// The VMM's user owns them; the node, by its group, reads and syncs them.
const LIFE_FILE_MODE: u32 = 0o640;

pub struct Vmms {
    pub cgroups: Cgroups,
    folders: RunFolders,
    uids: Uids,
    /// Started by this process, whose children they are until they have ended.
    wardens: Mutex<Vec<Child>>,
}

/// What a VMM is to run.
pub struct Guest {
    pub life: LifeId,
    pub place: PlaceName,
    pub memory_mib: u64,
    pub vcpus: u64,
}

/// The numbers that the files of a life have in the VMM.
pub struct Passed {
    pub disk: u32,
    pub memory: u32,
}

impl Vmms {
    pub fn open(config: &Config) -> Result<Self> {
        let cgroups = Cgroups::open()?;
        let uids = Uids::open(config.first_uid, config.uid_count - 1, &config.uid_registry)?;
        // A platform that was killed, and whose run folders were removed, left them.
        uids.for_free(cgroups.uids(), |uid| cgroups.remove_abandoned(uid))?;
        Ok(Self {
            cgroups,
            uids,
            folders: RunFolders::open(&config.run_dir, config.node_gid)?,
            wardens: Mutex::new(vec![]),
        })
    }

    /// Leaves neither process nor folder when it fails. `complaints` becomes the VMM's standard error.
    pub fn start(&self, config: &Config, run: &RunName, kind: &Kind, complaints: OwnedFd) -> Result<Identity> {
        require_socket(complaints.as_fd())?;
        let program = config.program(kind)?;
        self.folders.create(run, &kind.build)?;
        let started = self.launch(config, run, kind, program, complaints);
        if started.is_err() {
            // The failure of the start is the one to report; what stays is found again.
            let _ = self.end(run).and_then(|()| self.clear(run));
        }
        started
    }

    fn launch(
        &self,
        config: &Config,
        run: &RunName,
        kind: &Kind,
        (root, program): (&Path, &[String]),
        complaints: OwnedFd,
    ) -> Result<Identity> {
        let uid = self.uids.take(&self.folders.path(run))?;
        let groups = self.cgroups.create(uid)?;
        let mut command = Command::new(&config.launcher);
        command.env_clear().current_dir(self.folders.sockets(run));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints);
        command.arg("--uid").arg(uid.to_string()).arg("--folder").arg(root);
        command.arg("--file-bytes").arg(config.file_bytes.to_string()).arg("--threads").arg(MAX_TASKS.to_string());
        for procs in &groups {
            command.arg("--cgroup").arg(procs);
        }
        for name in &config.sockets {
            command.arg("--listen").arg(name);
        }
        if kind.mode == Mode::Boot {
            for (outside, inside) in &config.boot_files {
                command.arg("--file").arg(format!("{}:{inside}", outside.display()));
            }
        }
        if kind.accelerator == Accelerator::Kvm {
            command.args(["--device", "kvm"]);
            // Root's own group would open more than KVM, and it does not open that either when the device is root's alone.
            let gid = fs::metadata("/dev/kvm").about("/dev/kvm")?.gid();
            if gid != 0 {
                command.arg("--group").arg(gid.to_string());
            }
        }
        command.arg("--").args(program);
        // It outlives this process, and whatever ends a terminal's processes.
        unsafe { command.pre_exec(|| if libc::setsid() < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }) };
        let mut warden = command.spawn().about(config.launcher.display())?;
        let said = read_record(&mut warden);
        let identity = said.and_then(|text| {
            Identity::parse(&text)
                .ok_or_else(|| Failure::new("internal", "the launcher ended before it had started a VMM"))
        });
        if identity.is_err() {
            let _ = warden.kill();
            let _ = warden.wait();
        } else {
            self.reap(Some(warden));
            self.folders.admit_node(run)?;
        }
        identity
    }

    /// Gives a VMM that knows nothing yet the files and the limits of a life, and its run folder the name of that life.
    ///
    /// `control` is a connection to the VMM's control socket. A byte that means nothing there carries the files; the VMM's
    /// program holds them open until the next ones come. It opens them a second time, as its own user, by their number.
    pub fn equip(&self, config: &Config, run: &RunName, guest: &Guest, control: &OwnedFd) -> Result<Passed> {
        let (vcpus, memory_mib) = (guest.vcpus, guest.memory_mib);
        let name = RunName::of(&guest.life);
        self.folders.rename(run, &name)?;
        let vmm = self.folders.record(&name)?.ok_or_else(|| Failure::new("vm_lost", "there is no such VMM"))?;
        let uid = uid_of(&self.folders.path(&name))?.ok_or_else(|| Failure::new("vm_lost", "the VMM has no user"))?;
        require_way_to(control, &vmm)?;
        let files = self.open_life(config, guest, uid)?;
        self.cgroups.limit(uid, Limits::of_guest(memory_mib, vcpus))?;
        wire::send_files(control, b" ", &files)?;
        find_passed(&vmm, &files)
    }

    fn open_life(&self, config: &Config, guest: &Guest, uid: u32) -> Result<[File; 2]> {
        let (place, all_ours) = config.place(&guest.place)?;
        let folder = open_beneath(&open_folder(&place)?, &format!("lives/{}", guest.life.as_str()), libc::O_DIRECTORY)
            .about(guest.life.as_str())?;
        let open = |name: &str| -> Result<File> {
            let file = open_beneath(&folder, name, libc::O_RDWR).about(name)?;
            let found = file.metadata().about(name)?;
            if !found.is_file() {
                return Err(Failure::refused(format!("{name} is no file")));
            }
            let known = found.uid() == config.node_uid || self.uids.holds(found.uid());
            // Outside of a vault, a file of another user could have been linked here.
            if !all_ours && (!known || found.nlink() != 1) {
                return Err(Failure::refused(format!("{name} is not the node's own")));
            }
            if (found.uid(), found.gid(), found.mode() & 0o7777) != (uid, config.node_gid, LIFE_FILE_MODE) {
                own(&file, uid, config.node_gid, LIFE_FILE_MODE)?;
            }
            Ok(file)
        };
        let (disk, memory) = (open("disk.img")?, open("memory")?);
        let bytes = memory.metadata().about("memory")?.len();
        if bytes != guest.memory_mib * MIB {
            let detail = format!("the memory file has {bytes} bytes, not {} MiB", guest.memory_mib);
            return Err(Failure::new("restore_failed", detail));
        }
        Ok([disk, memory])
    }

    /// Kills the VMM of a run folder, and waits for the proof of its death. Nothing to do when there is none.
    pub fn end(&self, run: &RunName) -> Result<()> {
        let ended = self.folders.record(run)?.map_or(Ok(()), |vmm| vmm.kill());
        self.reap(None);
        ended
    }

    /// Removes the run folder of a dead VMM, with all that was taken for it. Nothing to do when there is none.
    pub fn clear(&self, run: &RunName) -> Result<()> {
        if self.folders.record(run)?.map_or(Ok(false), |vmm| vmm.is_alive())? {
            return Err(Failure::refused(format!("the VMM of {} is alive", run.as_str())));
        }
        let uid = uid_of(&self.folders.path(run))?;
        if let Some(uid) = uid {
            self.cgroups.remove(uid)?;
        }
        self.folders.remove(run)?;
        self.reap(None);
        uid.map_or(Ok(()), |uid| self.uids.release(uid))
    }

    /// Takes note of wardens that have ended; one that was started is awaited from now on.
    fn reap(&self, started: Option<Child>) {
        let mut wardens = self.wardens.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        wardens.extend(started);
        wardens.retain_mut(|warden| matches!(warden.try_wait(), Ok(None)));
    }
}

/// One line, or nothing when the launcher failed; what is wrong it has said to the node.
fn read_record(warden: &mut Child) -> Result<String> {
    let mut stdout = warden.stdout.take().ok_or_else(|| Failure::new("internal", "the launcher has no output"))?;
    let deadline = Instant::now() + START_LIMIT;
    let mut text = vec![];
    while !text.ends_with(b"\n") {
        if !wire::readable_by(&stdout, deadline)? {
            return Err(Failure::new("internal", "the launcher did not start a VMM in time"));
        }
        let mut piece = [0; LONGEST_RECORD];
        let count = stdout.read(&mut piece).about("the launcher")?;
        text.extend_from_slice(&piece[..count]);
        if count == 0 || text.len() > LONGEST_RECORD {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The kernel tells who listened: the launcher, as root, which is the parent of the VMM still; or the VMM itself, once it
/// has taken over. A connection to anybody else gets no file.
fn require_way_to(control: &OwnedFd, vmm: &Identity) -> Result<()> {
    require_socket(control.as_fd())?;
    let peer = peer_of(control.as_fd())?;
    let status = fs::read_to_string(format!("/proc/{}/status", vmm.pid)).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t")?.parse().ok());
    if !vmm.is_alive()? {
        return Err(Failure::new("vm_lost", "the VMM has ended"));
    }
    if peer.pid == vmm.pid || (peer.uid == 0 && Some(peer.pid) == parent) {
        return Ok(());
    }
    Err(Failure::refused("the connection does not lead to the VMM"))
}

/// The number that each file has in the VMM.
fn find_passed(vmm: &Identity, [disk, memory]: &[File; 2]) -> Result<Passed> {
    let (disk, memory) = (disk.metadata().about("disk")?, memory.metadata().about("memory")?);
    let deadline = Instant::now() + PASS_LIMIT;
    let folder = format!("/proc/{}/fd", vmm.pid);
    loop {
        let (mut found_disk, mut found_memory) = (None, None);
        for entry in fs::read_dir(&folder).map_err(|_| Failure::new("vm_lost", "the VMM has ended"))?.flatten() {
            let Ok(open) = fs::metadata(entry.path()) else { continue };
            let number = entry.file_name().to_string_lossy().parse().ok();
            let is = |file: &fs::Metadata| (open.dev(), open.ino()) == (file.dev(), file.ino());
            if is(&disk) {
                found_disk = number;
            } else if is(&memory) {
                found_memory = number;
            }
        }
        if let (Some(disk), Some(memory)) = (found_disk, found_memory) {
            return Ok(Passed { disk, memory });
        }
        if Instant::now() > deadline {
            return Err(Failure::unavailable("the VMM did not take its files in time"));
        }
        sleep(PASS_POLL);
    }
}
