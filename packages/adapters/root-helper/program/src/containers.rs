//! Encrypted vaults: a LUKS2 container in the vault's own folder, and beside it a copy of its header.
//!
//! ```text
//!   made under another name, with a file system in it → header copied → renamed
//!   opened:  key checked (nothing is touched before) → view attached → mounted      closed: the other way round
//!   removed: both headers and the copy overwritten → file removed
//! ```

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::backing::{self, BLOCK_BYTES};
use crate::config::{Config, VaultConfig};
use crate::cryptsetup::{self, Verdict};
use crate::dm_crypt;
use crate::failure::{About, Failure, Result};
use crate::secret::{Keyed, Secret};
use crate::vault_servers;

const CONTAINER: &str = "vault.luks";
const HEADER_COPY: &str = "header.luks";
/// More than any header of ours takes; what it takes is found out once it is made.
const MOST_HEADER_BYTES: u64 = 16 * 1024 * 1024;

/// How the plain view of a container is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    DmCrypt,
    Server,
}

impl Way {
    pub fn here(config: &Config) -> Self {
        let folder = config.socket.parent().unwrap_or(Path::new("/run"));
        if dm_crypt::works(folder) { Self::DmCrypt } else { Self::Server }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::DmCrypt => "dm-crypt",
            Self::Server => "server",
        }
    }
}

/// What opening one takes of the machine.
pub struct Means<'a> {
    pub config: &'a Config,
    /// The groups of vault servers.
    pub groups: &'a [PathBuf],
}

pub struct Container {
    pub file: PathBuf,
    folder: PathBuf,
}

impl Container {
    /// The one of a vault, if it has one.
    pub fn find(folder: &Path) -> Option<Self> {
        let container = Self { file: folder.join(CONTAINER), folder: folder.into() };
        container.file.exists().then_some(container)
    }

    /// Makes one that holds `bytes`, with an empty vault in it.
    pub fn make(means: &Means, vault: &VaultConfig, folder: &Path, bytes: u64, keyed: &Keyed) -> Result<Self> {
        let draft = Self { file: folder.join(format!("{CONTAINER}.new")), folder: folder.into() };
        if draft.file.exists() {
            // Of a call that was interrupted.
            draft.detach()?;
            fs::remove_file(&draft.file).about(draft.file.display())?;
        }
        let file = File::options().write(true).create_new(true).mode(0o600).open(&draft.file);
        let file = file.about(draft.file.display())?;
        file.set_len(MOST_HEADER_BYTES).about(draft.file.display())?;
        cryptsetup::format(&draft.file, &keyed.key)?;
        let whole = cryptsetup::data_offset(&draft.file)? + bytes / BLOCK_BYTES * BLOCK_BYTES;
        file.set_len(whole).about(draft.file.display())?;
        if let Some(token) = &keyed.token {
            cryptsetup::set_token(&draft.file, token)?;
        }
        let device = draft.attach(means, &keyed.key)?;
        let made = backing::make_file_system(vault, folder, &device, &backing::new_uuid()?, true);
        draft.detach()?;
        made?;
        file.sync_all().about(draft.file.display())?;
        draft.copy_header()?;
        let container = Self { file: folder.join(CONTAINER), folder: folder.into() };
        fs::rename(&draft.file, &container.file).about(container.file.display())?;
        backing::sync(folder)?;
        Ok(container)
    }

    /// Mends the header from its copy, where it must and the key is that of the copy. A wrong key changes nothing.
    pub fn require_key(&self, key: &Secret) -> Result<()> {
        let copy = self.folder.join(HEADER_COPY);
        let mut verdict = cryptsetup::check_key(&self.file, None, key)?;
        if verdict == Verdict::NoContainer && copy.exists() {
            verdict = cryptsetup::check_key(&self.file, Some(&copy), key)?;
            if verdict == Verdict::Right {
                cryptsetup::restore_header(&self.file, &copy)?;
            }
        }
        let name = self.file.display();
        match verdict {
            Verdict::Right => Ok(()),
            Verdict::Wrong => Err(Failure::new("vault_key_wrong", format!("{name} does not open with that key"))),
            Verdict::NoContainer => {
                let detail = format!("the headers of {name} cannot be read, and no copy of them helps");
                Err(Failure::new("vault_damaged", detail))
            }
        }
    }

    pub fn set_token(&self, token: &str) -> Result<()> {
        cryptsetup::set_token(&self.file, token)?;
        self.copy_header()
    }

    /// The device of its plain view, when it is open, and how.
    pub fn found(&self) -> Result<Option<(PathBuf, Way)>> {
        if let Some(device) = vault_servers::found(&self.file, &self.folder)? {
            return Ok(Some((device, Way::Server)));
        }
        Ok(dm_crypt::found(&self.file)?.map(|device| (device, Way::DmCrypt)))
    }

    /// The key must be known to be right.
    pub fn attach(&self, means: &Means, key: &Secret) -> Result<PathBuf> {
        match self.found()? {
            Some((device, _)) => Ok(device),
            None if Way::here(means.config) == Way::DmCrypt => dm_crypt::attach(&self.file, key),
            None => vault_servers::attach(means.config, means.groups, &self.file, &self.folder, key),
        }
    }

    /// Nothing may be mounted from it.
    pub fn detach(&self) -> Result<()> {
        vault_servers::detach(&self.file, &self.folder)?;
        if dm_crypt::found(&self.file)?.is_some() { dm_crypt::detach(&self.file) } else { Ok(()) }
    }

    /// Makes the file as large that it holds `bytes`; what is open learns of it by `refresh`.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        let whole = cryptsetup::data_offset(&self.file)? + bytes / BLOCK_BYTES * BLOCK_BYTES;
        let file = File::options().write(true).open(&self.file).about(self.file.display())?;
        if file.metadata().about(self.file.display())?.len() < whole {
            file.set_len(whole).about(self.file.display())?;
        }
        file.sync_all().about(self.file.display())
    }

    /// Has the device of its view be as large as the file. One of dm-crypt is, from its next opening on.
    pub fn refresh(&self, device: &Path, way: Way) -> Result<()> {
        match way {
            Way::Server => vault_servers::refresh_size(&self.folder, device),
            Way::DmCrypt => Ok(()),
        }
    }

    /// What is left after this is noise, whoever has the key. Can be repeated.
    pub fn shred(&self) -> Result<()> {
        let offset = cryptsetup::data_offset(&self.file).unwrap_or(MOST_HEADER_BYTES);
        overwrite(&self.file, offset)?;
        let copy = self.folder.join(HEADER_COPY);
        if copy.exists() {
            overwrite(&copy, fs::metadata(&copy).about(copy.display())?.len())?;
            remove_if_there(&copy)?;
        }
        remove_if_there(&self.file)
    }

    fn copy_header(&self) -> Result<()> {
        let draft = self.folder.join(format!("{HEADER_COPY}.new"));
        remove_if_there(&draft)?;
        cryptsetup::back_up_header(&self.file, &draft)?;
        File::open(&draft).and_then(|file| file.sync_all()).about(draft.display())?;
        fs::rename(&draft, self.folder.join(HEADER_COPY)).about(draft.display())?;
        backing::sync(&self.folder)
    }
}

/// What else there may be of one, after a call that was interrupted.
pub fn remove_drafts(folder: &Path) -> Result<()> {
    let draft = Container { file: folder.join(format!("{CONTAINER}.new")), folder: folder.into() };
    if draft.file.exists() {
        draft.detach()?;
        draft.shred()?;
    }
    remove_if_there(&folder.join(format!("{HEADER_COPY}.new")))?;
    remove_if_there(&vault_servers::view_in(folder))
}

pub fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).about(path.display()),
        _ => Ok(()),
    }
}

/// On the disk before this returns.
fn overwrite(path: &Path, bytes: u64) -> Result<()> {
    let zeros = vec![0; 1024 * 1024];
    let file = File::options().write(true).open(path).about(path.display())?;
    let end = bytes.min(file.metadata().about(path.display())?.len());
    let mut position = 0;
    while position < end {
        let count = zeros.len().min((end - position) as usize);
        file.write_all_at(&zeros[..count], position).about(path.display())?;
        position += count as u64;
    }
    file.sync_all().about(path.display())
}
