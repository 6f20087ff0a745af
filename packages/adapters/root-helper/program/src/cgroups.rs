//! What a VMM may use of the machine: a cgroup of its own, named by its uid, below `space`. Linux has two forms: one tree
//! with all controllers (v2), or one tree for each (v1). A machine can have both, each with some of the controllers.
//!
//! Guest memory is page cache of a file, so it is reclaimed (written back to that file) at the limit; what counts for good
//! is what the VMM itself holds.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::{About, Failure, Result};
use crate::lacks::{Lack, counts_without_bfq, is_bfq_in_use};

const PARENT: &str = "space";
const VAULTS: &str = "space-vaults";
/// The most that the kernel takes, in either form.
const MOST_WEIGHTS: [(&str, &str); 2] = [("cpu.shares", "262144"), ("cpu.weight", "10000")];
const GROUP: &str = "vmm-";
const PROBE: &str = "probe-";
const MIB: u64 = 1024 * 1024;
/// QEMU's own memory, its translation buffer under emulation, and page cache of the disk to work with.
const OVERHEAD_MIB: u64 = 384;
const CPU_PERIOD_US: u64 = 100_000;
/// Beyond the vCPUs: half a CPU for the threads that serve disk, console and control.
const DEVICE_QUOTA_US: u64 = CPU_PERIOD_US / 2;
pub const MAX_TASKS: u64 = 128;
/// How much all VMs together weigh against others. In v1 each process outside of any group weighs as much as one whole
/// group: with the usual weight, ten busy processes would leave a tenth of the machine to all guests.
const PARENT_WEIGHT: u64 = 10;
const IO_WEIGHT: &str = "100";
const REMOVE_LIMIT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Memory,
    Cpu,
    Pids,
    Io,
}

const CONTROLLERS: [Controller; 4] = [Controller::Memory, Controller::Cpu, Controller::Pids, Controller::Io];

impl Controller {
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Io => "io",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

#[derive(Debug, PartialEq, Eq)]
struct Tree {
    version: Version,
    path: PathBuf,
    controllers: Vec<Controller>,
}

#[derive(Clone, Copy)]
pub struct Limits {
    memory_mib: u64,
    quota_us: u64,
    weight: u64,
}

impl Limits {
    /// A spare has no guest yet.
    pub const SPARE: Self = Self { memory_mib: 512, quota_us: CPU_PERIOD_US, weight: 1 };

    pub fn of_guest(memory_mib: u64, vcpus: u64) -> Self {
        let quota_us = vcpus * CPU_PERIOD_US + DEVICE_QUOTA_US;
        Self { memory_mib: memory_mib + OVERHEAD_MIB, quota_us, weight: vcpus }
    }
}

pub struct Cgroups {
    trees: Vec<Tree>,
    /// Which limits hold each VMM, e.g. `memory (cgroup v1)`.
    pub in_force: Vec<String>,
    pub missing: Vec<Missing>,
}

pub struct Missing {
    pub limit: &'static str,
    pub reason: String,
    pub remedy: String,
}

impl Cgroups {
    /// Uses what is there and can be written to.
    pub fn open() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").about("the mounts")?;
        let (mut trees, mut in_force, mut lacks) = (vec![], vec![], vec![]);
        for tree in trees_in(&mounts) {
            let prepared = prepare(&tree).unwrap_or_else(|failure| Prepared::failed(&tree, &failure));
            let version = if tree.version == Version::V1 { 1 } else { 2 };
            for controller in &prepared.written {
                if !prepared.lacks.iter().any(|(lacking, _)| lacking == controller) {
                    in_force.push((*controller, format!("{} (cgroup v{version})", controller.name())));
                }
            }
            lacks.extend(prepared.lacks);
            if !prepared.written.is_empty() {
                trees.push(Tree { path: tree.path.join(PARENT), controllers: prepared.written, ..tree });
            }
        }
        let held = |one: &Controller| in_force.iter().any(|(held, _)| held == one);
        let missing = CONTROLLERS.iter().filter(|one| !held(one)).map(|one| missing_of(*one, &lacks)).collect();
        Ok(Self { in_force: in_force.into_iter().map(|(_, text)| text).collect(), missing, trees })
    }

    /// Makes the groups of a VMM that has no guest yet; returns the files through which its process joins them.
    pub fn create(&self, uid: u32) -> Result<Vec<PathBuf>> {
        let folders: Vec<_> = self.trees.iter().map(|tree| group(tree, uid)).collect();
        for folder in &folders {
            fs::create_dir_all(folder).about(folder.display())?;
        }
        self.limit(uid, Limits::SPARE)?;
        Ok(folders.iter().map(|folder| folder.join("cgroup.procs")).collect())
    }

    /// The files through which a vault server joins the groups of all of them, which are beside those of guests: what a guest may
    /// not take any more, its vault must still be able to take. Whoever waits for a disk waits for them, so they come before all
    /// else that computes; what they compute is bounded by what the disk takes.
    pub fn of_vaults(&self) -> Vec<PathBuf> {
        let mut out = vec![];
        for tree in &self.trees {
            let Some(folder) = tree.path.parent().map(|root| root.join(VAULTS)) else { continue };
            if fs::create_dir_all(&folder).is_err() {
                continue;
            }
            for (file, most) in MOST_WEIGHTS {
                // Where there is no such file, there is no such weight.
                let _ = fs::write(folder.join(file), most);
            }
            out.push(folder.join("cgroup.procs"));
        }
        out
    }

    pub fn limit(&self, uid: u32, limits: Limits) -> Result<()> {
        for tree in &self.trees {
            for controller in &tree.controllers {
                write_settings(&group(tree, uid), settings(tree.version, *controller, limits))?;
            }
        }
        Ok(())
    }

    /// Every process in them must be dead.
    pub fn remove(&self, uid: u32) -> Result<()> {
        self.trees.iter().try_for_each(|tree| remove_group(&group(tree, uid)))
    }

    /// Those that have a group.
    pub fn uids(&self) -> BTreeSet<u32> {
        let numbers =
            |tree: &Tree| names_in(&tree.path).into_iter().filter_map(|name| name.strip_prefix(GROUP)?.parse().ok());
        self.trees.iter().flat_map(numbers).collect()
    }

    /// Nothing is waited for: the kernel keeps what has a process, and what stays is tried again at the next start.
    pub fn remove_abandoned(&self, uid: u32) {
        for tree in &self.trees {
            let _ = fs::remove_dir(group(tree, uid));
        }
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn group(tree: &Tree, uid: u32) -> PathBuf {
    tree.path.join(format!("{GROUP}{uid}"))
}

/// The files that hold a limit, and what is written into each. Of the files of a setting, the first that the kernel has
/// is meant: the weight of I/O has its name from whatever shares the disk out.
type Setting = (&'static [&'static str], String);

fn settings(version: Version, controller: Controller, limits: Limits) -> Vec<Setting> {
    let Limits { memory_mib, quota_us, weight } = limits;
    match (controller, version) {
        (Controller::Memory, Version::V1) => vec![(&["memory.limit_in_bytes"], (memory_mib * MIB).to_string())],
        (Controller::Memory, Version::V2) => vec![(&["memory.max"], (memory_mib * MIB).to_string())],
        (Controller::Cpu, Version::V1) => {
            vec![(&["cpu.cfs_quota_us"], quota_us.to_string()), (&["cpu.shares"], (1024 * weight).to_string())]
        }
        (Controller::Cpu, Version::V2) => {
            vec![(&["cpu.max"], format!("{quota_us} {CPU_PERIOD_US}")), (&["cpu.weight"], (100 * weight).to_string())]
        }
        (Controller::Pids, _) => vec![(&["pids.max"], MAX_TASKS.to_string())],
        (Controller::Io, Version::V1) => vec![(&["blkio.weight", "blkio.bfq.weight"], IO_WEIGHT.into())],
        (Controller::Io, Version::V2) => vec![(&["io.weight", "io.bfq.weight"], IO_WEIGHT.into())],
    }
}

/// The first of them that is there.
fn file_in(folder: &Path, files: &[&'static str]) -> Option<&'static str> {
    files.iter().copied().find(|file| folder.join(file).exists())
}

fn write_settings(folder: &Path, settings: Vec<Setting>) -> Result<()> {
    for (files, value) in settings {
        let path = folder.join(file_in(folder, files).unwrap_or(files[0]));
        fs::write(&path, value).about(path.display())?;
    }
    Ok(())
}

/// Each mounted tree with those of our controllers that it may have. `mounts` is the text of /proc/self/mounts.
fn trees_in(mounts: &str) -> Vec<Tree> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let path = path.into();
            if kind == "cgroup2" {
                return Some(Tree { version: Version::V2, path, controllers: CONTROLLERS.into() });
            }
            let named = |controller: &Controller| {
                options
                    .split(',')
                    .any(|name| if name == "blkio" { controller.name() == "io" } else { name == controller.name() })
            };
            let controllers: Vec<_> = CONTROLLERS.into_iter().filter(named).collect();
            (kind == "cgroup" && !controllers.is_empty()).then_some(Tree { version: Version::V1, path, controllers })
        })
        .collect()
}

/// What a tree is good for.
struct Prepared {
    /// Whose limits are written.
    written: Vec<Controller>,
    /// Why some are not in force, also of those that are written.
    lacks: Vec<(Controller, Lack)>,
}

impl Prepared {
    fn failed(tree: &Tree, failure: &Failure) -> Self {
        let lacks = tree.controllers.iter().map(|one| (*one, Lack::Failed(failure.detail.clone())));
        Self { written: vec![], lacks: lacks.collect() }
    }
}

/// Makes the parent group, and finds out which limits work in its children by writing them to one.
fn prepare(tree: &Tree) -> Result<Prepared> {
    let parent = tree.path.join(PARENT);
    let controllers = if tree.version == Version::V2 { enable(tree, &parent)? } else { tree.controllers.clone() };
    let mut prepared = Prepared { written: vec![], lacks: vec![] };
    if controllers.is_empty() {
        return Ok(prepared);
    }
    fs::create_dir_all(&parent).about(parent.display())?;
    remove_old_probes(&parent);
    for (files, value) in settings(tree.version, Controller::Cpu, Limits { weight: PARENT_WEIGHT, ..Limits::SPARE }) {
        let path = parent.join(files[0]);
        if matches!(files[0], "cpu.shares" | "cpu.weight") && path.exists() {
            fs::write(&path, value).about(path.display())?;
        }
    }
    let probe = parent.join(probe_name());
    fs::create_dir(&probe).about(probe.display())?;
    for controller in controllers {
        let (works, lack) = try_out(&probe, controller, settings(tree.version, controller, Limits::SPARE));
        prepared.written.extend(works.then_some(controller));
        prepared.lacks.extend(lack.map(|lack| (controller, lack)));
    }
    fs::remove_dir(&probe).about(probe.display())?;
    Ok(prepared)
}

/// Those controllers of a tree of v2 that it offers, enabled for the groups of VMMs.
fn enable(tree: &Tree, parent: &Path) -> Result<Vec<Controller>> {
    let offered = tree.path.join("cgroup.controllers");
    let offered = fs::read_to_string(&offered).about(offered.display())?;
    let offered: Vec<_> = offered.split_whitespace().collect();
    let wanted: Vec<_> = tree.controllers.iter().copied().filter(|one| offered.contains(&one.name())).collect();
    if wanted.is_empty() {
        return Ok(wanted);
    }
    let enable: Vec<_> = wanted.iter().map(|one| format!("+{}", one.name())).collect();
    fs::create_dir_all(parent).about(parent.display())?;
    for folder in [&tree.path, parent] {
        let control = folder.join("cgroup.subtree_control");
        fs::write(&control, enable.join(" ")).about(control.display())?;
    }
    Ok(wanted)
}

/// Whether the limit can be written there, and why it is not in force.
fn try_out(probe: &Path, controller: Controller, settings: Vec<Setting>) -> (bool, Option<Lack>) {
    let found: Vec<_> = settings.iter().map(|(files, _)| file_in(probe, files)).collect();
    if let Some(at) = found.iter().position(Option::is_none) {
        return (false, Some(Lack::NoFile { files: settings[at].0.join(" nor "), disk: controller == Controller::Io }));
    }
    if let Err(failure) = write_settings(probe, settings) {
        return (false, Some(Lack::Failed(failure.detail)));
    }
    let unfelt = found.into_iter().flatten().find(|file| !counts_without_bfq(file) && !is_bfq_in_use());
    (true, unfelt.map(Lack::Unfelt))
}

fn missing_of(controller: Controller, lacks: &[(Controller, Lack)]) -> Missing {
    let own: Vec<_> = lacks.iter().filter(|(lacking, _)| *lacking == controller).map(|(_, lack)| lack).collect();
    let own = if own.is_empty() { vec![&Lack::NoTree] } else { own };
    let join = |texts: Vec<String>| texts.join(" ");
    Missing {
        limit: controller.name(),
        reason: join(own.iter().map(|lack| lack.reason()).collect()),
        remedy: join(own.iter().map(|lack| lack.remedy()).collect()),
    }
}

/// Helpers that start at the same time use names of their own.
fn probe_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{PROBE}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Of helpers that were killed meanwhile.
fn remove_old_probes(parent: &Path) {
    for name in names_in(parent) {
        let pid = name.strip_prefix(PROBE).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(parent.join(name));
        }
    }
}

/// The kernel needs a moment to let go of the last process.
fn remove_group(folder: &Path) -> Result<()> {
    let deadline = Instant::now() + REMOVE_LIMIT;
    loop {
        match fs::remove_dir(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => return Err(error).about(folder.display()),
            Err(_) if Instant::now() > deadline => {
                return Err(Failure::unavailable(format!("{} is still in use", folder.display())));
            }
            Err(_) => sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_trees_of_both_versions() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
            cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n\
            cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found: Vec<_> = trees_in(mounts).into_iter().map(|tree| (tree.version, tree.controllers)).collect();
        assert_eq!(
            found,
            [
                (Version::V1, vec![Controller::Memory]),
                (Version::V1, vec![Controller::Cpu]),
                (Version::V1, vec![Controller::Io]),
                (Version::V2, CONTROLLERS.to_vec()),
            ]
        );
    }

    #[test]
    fn a_guest_gets_its_memory_and_vcpus_and_something_for_the_vmm() {
        let limits = Limits::of_guest(256, 2);
        let memory = settings(Version::V2, Controller::Memory, limits);
        assert_eq!(memory, [(&["memory.max"][..], (640 * MIB).to_string())]);
        assert_eq!(settings(Version::V2, Controller::Cpu, limits)[0], (&["cpu.max"][..], "250000 100000".into()));
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("space-cgroups-{name}-{}", std::process::id()));
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn the_weight_of_io_is_written_to_the_file_that_the_kernel_has() {
        for (version, names) in
            [(Version::V1, ["blkio.weight", "blkio.bfq.weight"]), (Version::V2, ["io.weight", "io.bfq.weight"])]
        {
            let folder = Folder::new(&format!("{version:?}"));
            let try_io = || try_out(&folder.0, Controller::Io, settings(version, Controller::Io, Limits::SPARE));
            let (written, lack) = try_io();
            assert!(!written && lack.unwrap().reason().contains(&names.join(" nor ")));
            // The one of BFQ first: what has both is written to the other.
            for name in [names[1], names[0]] {
                fs::write(folder.0.join(name), "").unwrap();
                let (written, lack) = try_io();
                assert_eq!(fs::read_to_string(folder.0.join(name)).unwrap(), IO_WEIGHT);
                let unfelt = name.contains("bfq") && !is_bfq_in_use();
                assert_eq!((written, lack), (true, unfelt.then_some(Lack::Unfelt(name))));
                fs::write(folder.0.join(name), "").unwrap();
            }
            assert_eq!(fs::read_to_string(folder.0.join(names[1])).unwrap(), "");
        }
    }

    #[test]
    fn each_limit_that_is_missing_has_the_reasons_of_its_own_trees() {
        let lacks =
            [(Controller::Io, Lack::Unfelt("blkio.bfq.weight")), (Controller::Cpu, Lack::Failed("/x: no".into()))];
        assert!(missing_of(Controller::Io, &lacks).reason.starts_with("blkio.bfq.weight counts only"));
        assert!(missing_of(Controller::Io, &lacks).remedy.contains("queue/scheduler"));
        assert_eq!(missing_of(Controller::Cpu, &lacks).reason, "/x: no.");
        assert!(missing_of(Controller::Pids, &lacks).reason.starts_with("No mounted cgroup tree"));
    }

    #[test]
    fn old_probes_go_and_those_of_living_helpers_stay() {
        let folder = Folder::new("probes");
        let (old, own) =
            (folder.0.join("probe-4294967295-0"), folder.0.join(format!("probe-{}-7", std::process::id())));
        for probe in [&old, &own] {
            fs::create_dir(probe).unwrap();
        }
        remove_old_probes(&folder.0);
        assert_eq!((old.exists(), own.exists()), (false, true));
    }
}
