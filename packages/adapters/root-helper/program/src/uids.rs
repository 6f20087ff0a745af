//! Each VMM runs as a user of its own, from a range that nothing else on the machine uses.
//!
//! ```text
//!   <registry>/<uid>  ══ hard link ══  <run folder>/uid
//! ```
//!
//! A uid is taken by linking the run folder's file into the registry, which fails when it is taken. So it is recorded
//! before it is used, a folder can be renamed, and the removal of the folder (which follows the proof of death) is what
//! sets the uid free, in whatever process and however suddenly: an entry with one link left belongs to nobody.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::{About, Failure, Result, check};
use crate::files::provide_folder;

const UID_FILE: &str = "uid";
/// Locked while the registry is changed; holds the uid that was taken last.
const LOCK_FILE: &str = ".lock";

pub struct Uids {
    first: u32,
    count: u32,
    registry: PathBuf,
}

impl Uids {
    pub fn open(first: u32, count: u32, registry: &Path) -> Result<Self> {
        if let Some(parent) = registry.parent() {
            fs::create_dir_all(parent).about(parent.display())?;
        }
        provide_folder(registry, 0, 0o700)?;
        Ok(Self { first, count, registry: registry.into() })
    }

    pub fn holds(&self, uid: u32) -> bool {
        uid >= self.first && uid - self.first < self.count
    }

    /// A uid that no living VMM has, taken for this run folder. The next in turn: one that was just freed is used last.
    pub fn take(&self, run_folder: &Path) -> Result<u32> {
        let _lock = self.lock()?;
        let last = fs::read_to_string(self.registry.join(LOCK_FILE)).about("the registry of uids")?;
        let last = last.trim().parse().ok().filter(|uid| self.holds(*uid)).unwrap_or(self.first);
        let file = run_folder.join(UID_FILE);
        for step in 1..=self.count {
            let uid = self.first + (last - self.first + step) % self.count;
            if !free_when_abandoned(&self.entry(uid))? {
                continue;
            }
            fs::write(&file, format!("{uid}\n")).about(file.display())?;
            fs::hard_link(&file, self.entry(uid)).about("the registry of uids")?;
            fs::write(self.registry.join(LOCK_FILE), uid.to_string()).about("the registry of uids")?;
            return Ok(uid);
        }
        let all = format!("All {} user ids of VMMs, from {} on, are in use", self.count, self.first);
        Err(Failure::unavailable(all))
    }

    /// Tidies the registry after a run folder was removed.
    pub fn release(&self, uid: u32) -> Result<()> {
        let _lock = self.lock()?;
        free_when_abandoned(&self.entry(uid)).map(drop)
    }

    /// Calls `each` with those of `uids` that are of this range and that nobody holds; nobody takes one meanwhile.
    pub fn for_free(&self, uids: impl IntoIterator<Item = u32>, mut each: impl FnMut(u32)) -> Result<()> {
        let _lock = self.lock()?;
        for uid in uids {
            if self.holds(uid) && free_when_abandoned(&self.entry(uid))? {
                each(uid);
            }
        }
        Ok(())
    }

    fn entry(&self, uid: u32) -> PathBuf {
        self.registry.join(uid.to_string())
    }

    /// Other platforms on this machine may share the range. Held until the file is dropped.
    fn lock(&self) -> Result<File> {
        let path = self.registry.join(LOCK_FILE);
        let file = File::options().create(true).append(true).open(&path).about(path.display())?;
        check("flock", unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }.into())?;
        Ok(file)
    }
}

/// The uid that was taken for a run folder, if one was: what was only about to be taken may be another's by now. An
/// earlier version wrote it as `{"uid":…}`.
pub fn uid_of(run_folder: &Path) -> Result<Option<u32>> {
    let file = run_folder.join(UID_FILE);
    if fs::symlink_metadata(&file).is_ok_and(|found| found.nlink() == 1) {
        return Ok(None);
    }
    match fs::read_to_string(file) {
        Ok(text) => Ok(text.trim().trim_start_matches("{\"uid\":").trim_end_matches('}').parse().ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).about("the uid of a run folder"),
    }
}

/// Whether it is free now.
fn free_when_abandoned(entry: &Path) -> Result<bool> {
    match fs::symlink_metadata(entry) {
        Ok(found) if found.nlink() > 1 => Ok(false),
        Ok(_) => fs::remove_file(entry).about(entry.display()).map(|()| true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).about(entry.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World(PathBuf);

    impl World {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("space-uids-{name}-{}", std::process::id()));
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn uids(&self) -> Uids {
            Uids::open(1000, 3, &self.0.join("registry")).unwrap()
        }

        fn run_folder(&self, name: &str) -> PathBuf {
            let folder = self.0.join(name);
            fs::create_dir(&folder).unwrap();
            folder
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn no_two_folders_share_one_and_a_removed_folder_frees_its_own() {
        let world = World::new("turn");
        let uids = world.uids();
        let folders: Vec<_> = ["a", "b", "c"].iter().map(|name| world.run_folder(name)).collect();
        let taken: Vec<_> = folders.iter().map(|folder| uids.take(folder).unwrap()).collect();
        assert_eq!(taken, [1001, 1002, 1000]);
        assert_eq!(uid_of(&folders[1]).unwrap(), Some(1002));
        let more = world.run_folder("d");
        assert_eq!(uids.take(&more).unwrap_err().code, "unavailable");
        // Renamed, it keeps its uid; removed without a word, as by a process that was killed, it frees it.
        fs::rename(&folders[0], world.0.join("renamed")).unwrap();
        fs::remove_dir_all(&folders[1]).unwrap();
        assert_eq!(uids.take(&more).unwrap(), 1002);
        assert!(uids.take(&world.run_folder("e")).is_err());
    }

    #[test]
    fn one_that_was_just_freed_is_used_last() {
        let world = World::new("last");
        let (uids, folder) = (world.uids(), world.run_folder("a"));
        let mut seen = vec![];
        for _ in 0..3 {
            let uid = uids.take(&folder).unwrap();
            fs::remove_file(folder.join(UID_FILE)).unwrap();
            uids.release(uid).unwrap();
            seen.push(uid);
        }
        assert_eq!(seen, [1001, 1002, 1000]);
    }

    #[test]
    fn only_those_of_the_range_that_nobody_holds_are_free() {
        let world = World::new("free");
        let (uids, gone, kept) = (world.uids(), world.run_folder("gone"), world.run_folder("kept"));
        assert_eq!((uids.take(&gone).unwrap(), uids.take(&kept).unwrap()), (1001, 1002));
        fs::remove_dir_all(gone).unwrap();
        let mut free = vec![];
        uids.for_free([0, 999, 1000, 1001, 1002, 1003], |uid| free.push(uid)).unwrap();
        assert_eq!(free, [1000, 1001]);
    }

    #[test]
    fn that_of_an_earlier_version_is_known_once_it_is_taken() {
        let world = World::new("earlier");
        let folder = world.run_folder("a");
        assert_eq!(uid_of(&folder).unwrap(), None);
        fs::write(folder.join(UID_FILE), "{\"uid\":1900000007}").unwrap();
        assert_eq!(uid_of(&folder).unwrap(), None);
        fs::hard_link(folder.join(UID_FILE), world.0.join("1900000007")).unwrap();
        assert_eq!(uid_of(&folder).unwrap(), Some(1_900_000_007));
    }
}
