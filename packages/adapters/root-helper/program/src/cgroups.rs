//! What a VMM may use of the machine: a cgroup of its own, named by its uid, below `space`. Linux has two forms: one tree
//! with all controllers (v2), or one tree for each (v1). A machine can have both, each with some of the controllers.
//!
//! Guest memory is page cache of a file, so it is reclaimed (written back to that file) at the limit; what counts for good
//! is what the VMM itself holds.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::{About, Failure, Result};

const PARENT: &str = "space";
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
    pub missing: Vec<&'static str>,
    /// Why some are missing.
    pub failures: Vec<String>,
}

impl Cgroups {
    /// Uses what is there and can be written to.
    pub fn open() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").about("the mounts")?;
        let (mut trees, mut failures) = (vec![], vec![]);
        for tree in trees_in(&mounts) {
            match prepare(&tree) {
                Ok(controllers) if controllers.is_empty() => {}
                Ok(controllers) => trees.push(Tree { path: tree.path.join(PARENT), controllers, ..tree }),
                Err(failure) => failures.push(failure.detail),
            }
        }
        let in_force = trees.iter().flat_map(|tree| {
            let version = if tree.version == Version::V1 { 1 } else { 2 };
            tree.controllers.iter().map(move |controller| format!("{} (cgroup v{version})", controller.name()))
        });
        let held = |controller: &Controller| trees.iter().any(|tree| tree.controllers.contains(controller));
        let missing = CONTROLLERS.iter().filter(|controller| !held(controller)).map(|controller| controller.name());
        Ok(Self { in_force: in_force.collect(), missing: missing.collect(), failures, trees })
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

    pub fn limit(&self, uid: u32, limits: Limits) -> Result<()> {
        for tree in &self.trees {
            for (file, value) in tree.controllers.iter().flat_map(|one| settings(tree.version, *one, limits)) {
                let path = group(tree, uid).join(file);
                fs::write(&path, value).about(path.display())?;
            }
        }
        Ok(())
    }

    /// Every process in them must be dead.
    pub fn remove(&self, uid: u32) -> Result<()> {
        self.trees.iter().try_for_each(|tree| remove_group(&group(tree, uid)))
    }
}

fn group(tree: &Tree, uid: u32) -> PathBuf {
    tree.path.join(format!("vmm-{uid}"))
}

/// The files that hold a limit, and what is written into each.
fn settings(version: Version, controller: Controller, limits: Limits) -> Vec<(&'static str, String)> {
    let Limits { memory_mib, quota_us, weight } = limits;
    match (controller, version) {
        (Controller::Memory, Version::V1) => vec![("memory.limit_in_bytes", (memory_mib * MIB).to_string())],
        (Controller::Memory, Version::V2) => vec![("memory.max", (memory_mib * MIB).to_string())],
        (Controller::Cpu, Version::V1) => {
            vec![("cpu.cfs_quota_us", quota_us.to_string()), ("cpu.shares", (1024 * weight).to_string())]
        }
        (Controller::Cpu, Version::V2) => {
            vec![("cpu.max", format!("{quota_us} {CPU_PERIOD_US}")), ("cpu.weight", (100 * weight).to_string())]
        }
        (Controller::Pids, _) => vec![("pids.max", MAX_TASKS.to_string())],
        (Controller::Io, Version::V1) => vec![("blkio.weight", "100".into())],
        (Controller::Io, Version::V2) => vec![("io.weight", "100".into())],
    }
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

/// Makes the parent group and says which controllers work in its children.
fn prepare(tree: &Tree) -> Result<Vec<Controller>> {
    let parent = tree.path.join(PARENT);
    if tree.version == Version::V2 {
        let offered = tree.path.join("cgroup.controllers");
        let offered = fs::read_to_string(&offered).about(offered.display())?;
        let offered: Vec<_> = offered.split_whitespace().collect();
        let wanted = tree.controllers.iter().filter(|one| offered.contains(&one.name()));
        let enable: Vec<_> = wanted.map(|one| format!("+{}", one.name())).collect();
        if enable.is_empty() {
            return Ok(vec![]);
        }
        fs::create_dir_all(&parent).about(parent.display())?;
        for folder in [&tree.path, &parent] {
            let control = folder.join("cgroup.subtree_control");
            fs::write(&control, enable.join(" ")).about(control.display())?;
        }
    } else {
        fs::create_dir_all(&parent).about(parent.display())?;
    }
    for (file, value) in settings(tree.version, Controller::Cpu, Limits { weight: PARENT_WEIGHT, ..Limits::SPARE }) {
        let path = parent.join(file);
        if matches!(file, "cpu.shares" | "cpu.weight") && path.exists() {
            fs::write(&path, value).about(path.display())?;
        }
    }
    let probe = parent.join(probe_name());
    fs::create_dir(&probe).about(probe.display())?;
    let works = |one: &Controller| {
        settings(tree.version, *one, Limits::SPARE).iter().all(|(file, _)| probe.join(file).exists())
    };
    let working = tree.controllers.iter().copied().filter(works).collect();
    fs::remove_dir(&probe).about(probe.display())?;
    Ok(working)
}

/// Helpers that start at the same time use names of their own.
fn probe_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("probe-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
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
        assert_eq!(memory, [("memory.max", (640 * MIB).to_string())]);
        assert_eq!(settings(Version::V2, Controller::Cpu, limits)[0], ("cpu.max", "250000 100000".into()));
    }
}
