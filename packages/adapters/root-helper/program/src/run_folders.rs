//! The folder of one VMM process. The node reads it and connects to the sockets; only root writes to it:
//!
//! ```text
//!   <run-dir>/<run>/          root : node's group, 2750
//!       vmm.json              which process it is; written by the launcher before the VMM runs
//!       uid                   which user it runs as
//!       build                 which build of the VMM it is
//!       sockets/              on which it listens, 0660
//! ```

use std::ffi::CString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::{About, Failure, Result, check};
use crate::files::{c_path, provide_folder};
use crate::names::{BuildName, RunName};
use crate::processes::Identity;

/// With the group's bit: what is made in it is the group's too.
const FOLDER_MODE: u32 = 0o2750;
const SOCKET_MODE: u32 = 0o660;
const RECORD_MODE: u32 = 0o640;

pub struct RunFolders {
    dir: PathBuf,
    gid: u32,
}

impl RunFolders {
    /// Makes the folder of all of them. Those that an earlier version left as root's alone are opened to the node.
    pub fn open(dir: &Path, gid: u32) -> Result<Self> {
        provide_folder(dir, gid, FOLDER_MODE)?;
        let folders = Self { dir: dir.into(), gid };
        for entry in fs::read_dir(dir).about(dir.display())? {
            let entry = entry.about(dir.display())?;
            if let Ok(name) = RunName::parse(&entry.file_name().to_string_lossy()) {
                folders.admit_node(&name)?;
            }
        }
        Ok(folders)
    }

    pub fn path(&self, name: &RunName) -> PathBuf {
        self.dir.join(name.as_str())
    }

    pub fn sockets(&self, name: &RunName) -> PathBuf {
        self.path(name).join("sockets")
    }

    /// A new folder, for a VMM of that build.
    pub fn create(&self, name: &RunName, build: &BuildName) -> Result<()> {
        let path = self.path(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(Failure::new("name_taken", format!("{} has a VMM already", name.as_str())));
            }
            made => made.about(path.display())?,
        }
        fs::create_dir(self.sockets(name)).about(path.display())?;
        fs::write(path.join("build"), build.as_str()).about(path.display())?;
        self.admit_node(name)
    }

    /// The node may read and connect.
    pub fn admit_node(&self, name: &RunName) -> Result<()> {
        let path = self.path(name);
        provide_folder(&path, self.gid, FOLDER_MODE)?;
        provide_folder(&self.sockets(name), self.gid, FOLDER_MODE)?;
        for (folder, mode) in [(path, RECORD_MODE), (self.sockets(name), SOCKET_MODE)] {
            for entry in fs::read_dir(&folder).about(folder.display())? {
                let entry = entry.about(folder.display())?;
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                std::os::unix::fs::lchown(entry.path(), Some(0), Some(self.gid)).about(folder.display())?;
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).about(folder.display())?;
            }
        }
        Ok(())
    }

    /// Which process it belongs to; none when there never was one.
    pub fn record(&self, name: &RunName) -> Result<Option<Identity>> {
        let path = self.path(name).join("vmm.json");
        match fs::read_to_string(&path) {
            Ok(text) => {
                let identity = Identity::parse(&text);
                identity.map(Some).ok_or_else(|| Failure::new("internal", format!("{} is unclear", path.display())))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).about(path.display()),
        }
    }

    /// Nothing to do when it has that name already.
    pub fn rename(&self, from: &RunName, to: &RunName) -> Result<()> {
        if from == to || (!self.path(from).exists() && self.path(to).exists()) {
            return Ok(());
        }
        let (old, new): (CString, CString) = (c_path(&self.path(from)), c_path(&self.path(to)));
        let result = unsafe {
            libc::renameat2(libc::AT_FDCWD, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), libc::RENAME_NOREPLACE)
        };
        check(format!("taking {} for {}", from.as_str(), to.as_str()), result.into()).map(drop)
    }

    pub fn remove(&self, name: &RunName) -> Result<()> {
        match fs::remove_dir_all(self.path(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).about(name.as_str()),
            _ => Ok(()),
        }
    }
}
