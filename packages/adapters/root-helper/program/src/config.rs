//! What the helper is told at its start, by root, in a file that only root can write to. One setting a line, a word and its
//! values; a path is always the last value, so that it can have spaces.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::{About, Failure, Result};
use crate::names::{BuildName, PlaceName, number};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Boot,
    Restore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    Kvm,
    Tcg,
}

/// What a VMM is started as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub build: BuildName,
    pub mode: Mode,
    pub accelerator: Accelerator,
}

impl Kind {
    pub fn parse(build: &str, way: &str, by: &str) -> Result<Self> {
        Ok(Self { build: BuildName::parse(build)?, mode: mode(way)?, accelerator: accelerator(by)? })
    }
}

#[derive(Clone, Debug)]
pub enum Backing {
    Loop {
        bytes: u64,
    },
    Device(PathBuf),
    /// As it was made when it was asked for.
    Container,
}

#[derive(Clone, Debug)]
pub struct VaultConfig {
    pub name: PlaceName,
    pub folder: PathBuf,
    pub backing: Backing,
}

impl VaultConfig {
    pub fn mount_point(&self) -> PathBuf {
        self.folder.join("mnt")
    }
}

#[derive(Debug, Default)]
pub struct Config {
    /// The only user who is served, and who owns what lies in vaults.
    pub node_uid: u32,
    pub node_gid: u32,
    pub socket: PathBuf,
    pub run_dir: PathBuf,
    pub first_uid: u32,
    pub uid_count: u32,
    pub uid_registry: PathBuf,
    pub launcher: PathBuf,
    /// The folder of each build of the VMM: all that one of it sees.
    pub builds: Vec<(BuildName, PathBuf)>,
    /// What a VM boots from, and its path inside.
    pub boot_files: Vec<(PathBuf, String)>,
    /// The sockets that are made for a VMM, in their order.
    pub sockets: Vec<String>,
    /// Nothing that a VMM writes is longer.
    pub file_bytes: u64,
    pub vaults: Vec<VaultConfig>,
    /// Where further ones are made, each in a folder of its name.
    pub vaults_folder: Option<PathBuf>,
    /// The program that shows what is in a container where the kernel cannot.
    pub vault_server: PathBuf,
    /// Folders beside vaults in which lives can lie.
    pub places: Vec<(PlaceName, PathBuf)>,
    pub programs: Vec<(Kind, Vec<String>)>,
}

impl Config {
    pub fn read(path: &str) -> Result<Self> {
        let about = format!("the configuration {path}");
        let owner = fs::metadata(path).about(&about)?;
        if owner.uid() != 0 || owner.mode() & 0o022 != 0 {
            return Err(Failure::refused(format!("{about} can be written to by others than root")));
        }
        let text = fs::read_to_string(path).about(&about)?;
        Self::parse(&text).map_err(|failure| Failure::refused(format!("{about}: {}", failure.detail)))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut config = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            config.set(name, value).map_err(|_| Failure::refused(format!("the line \"{line}\" is unclear")))?;
        }
        for (name, path) in [
            ("socket", &config.socket),
            ("run-dir", &config.run_dir),
            ("uid-registry", &config.uid_registry),
            ("launcher", &config.launcher),
        ] {
            if !path.is_absolute() {
                return Err(Failure::refused(format!("{name} is missing, or no absolute path")));
            }
        }
        // VMMs have all but the last.
        if config.uid_count < 2 || config.first_uid == 0 || config.file_bytes == 0 {
            return Err(Failure::refused("uids or file-bytes is missing"));
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "" => {}
            "node" => (self.node_uid, self.node_gid) = pair(value, number, number)?,
            "socket" => self.socket = value.into(),
            "run-dir" => self.run_dir = value.into(),
            "uids" => (self.first_uid, self.uid_count) = pair(value, number, number)?,
            "uid-registry" => self.uid_registry = value.into(),
            "launcher" => self.launcher = value.into(),
            "vmm-build" => self.builds.push(pair(value, BuildName::parse, path)?),
            "file-bytes" => self.file_bytes = number(value)?,
            "vmm-socket" => self.sockets.push(value.into()),
            "boot-file" => self.boot_files.push(pair(value, text, path).map(|(inside, outside)| (outside, inside))?),
            "loop-vault" => {
                let (name, (bytes, folder)) = pair(value, PlaceName::parse, |rest| pair(rest, number, path))?;
                self.vaults.push(VaultConfig { name, folder, backing: Backing::Loop { bytes } });
            }
            "device-vault" => {
                let (name, folder) = pair(value, PlaceName::parse, path)?;
                self.vaults.push(VaultConfig { name, folder, backing: Backing::Device(PathBuf::new()) });
            }
            "device" => match self.vaults.last_mut() {
                Some(VaultConfig { backing: Backing::Device(device), .. }) => *device = path(value)?,
                _ => return Err(Failure::refused("a device belongs to the device-vault before it")),
            },
            "vaults-folder" => self.vaults_folder = Some(path(value)?),
            "vault-server" => self.vault_server = path(value)?,
            "place" => self.places.push(pair(value, PlaceName::parse, path)?),
            "program" => {
                let (build, (way, by)) = pair(value, text, |rest| pair(rest, text, text))?;
                self.programs.push((Kind::parse(&build, &way, &by)?, vec![]));
            }
            "argument" => match self.programs.last_mut() {
                Some((_, arguments)) => arguments.push(value.into()),
                None => return Err(Failure::refused("an argument belongs to the program before it")),
            },
            _ => return Err(Failure::refused("unknown")),
        }
        Ok(())
    }

    /// One that is configured, or that can lie in the folder of vaults.
    pub fn vault(&self, name: &PlaceName) -> Result<VaultConfig> {
        if let Some(found) = self.vaults.iter().find(|vault| vault.name == *name) {
            return Ok(found.clone());
        }
        let folder = self.vaults_folder.as_ref().map(|folder| folder.join(name.as_str()));
        let none = || Failure::refused(format!("there is no vault {}", name.as_str()));
        Ok(VaultConfig { name: name.clone(), folder: folder.ok_or_else(none)?, backing: Backing::Container })
    }

    /// The user of all vault servers: the last of the range, which no VMM is.
    pub fn server_uid(&self) -> u32 {
        self.first_uid + self.uid_count - 1
    }

    /// The folder of a place in which lives lie, and whether all of its file system is the platform's.
    pub fn place(&self, name: &PlaceName) -> Result<(PathBuf, bool)> {
        if let Some((_, path)) = self.places.iter().find(|(known, _)| known == name) {
            return Ok((path.clone(), false));
        }
        self.vault(name).map(|vault| (vault.mount_point(), true))
    }

    /// The folder of its build, and how it is started.
    pub fn program(&self, kind: &Kind) -> Result<(&Path, &[String])> {
        let program = self.programs.iter().find(|(known, _)| known == kind);
        let build = self.builds.iter().find(|(name, _)| *name == kind.build);
        match (build, program) {
            (Some((_, root)), Some((_, arguments))) => Ok((root, arguments)),
            _ => Err(Failure::refused("no VMM of that kind is configured")),
        }
    }
}

fn mode(text: &str) -> Result<Mode> {
    match text {
        "boot" => Ok(Mode::Boot),
        "restore" => Ok(Mode::Restore),
        _ => Err(Failure::refused("that is no way to start a VMM")),
    }
}

fn accelerator(text: &str) -> Result<Accelerator> {
    match text {
        "kvm" => Ok(Accelerator::Kvm),
        "tcg" => Ok(Accelerator::Tcg),
        _ => Err(Failure::refused("that is no accelerator")),
    }
}

fn pair<A, B>(value: &str, first: impl Fn(&str) -> Result<A>, second: impl Fn(&str) -> Result<B>) -> Result<(A, B)> {
    let (a, b) = value.split_once(' ').ok_or_else(|| Failure::refused("a value is missing"))?;
    Ok((first(a)?, second(b)?))
}

fn text(value: &str) -> Result<String> {
    Ok(value.into())
}

fn path(value: &str) -> Result<PathBuf> {
    if value.starts_with('/') { Ok(value.into()) } else { Err(Failure::refused("that is no absolute path")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "node 12 34\nsocket /run/h/socket\nrun-dir /run/lives\nuids 1900000000 64000\n\
        uid-registry /run/uids\nlauncher /jail\nfile-bytes 1024\nvmm-socket qmp\n\
        vmm-build 0123456789abcdef0123456789abcdef /my vmm\n\
        boot-file /boot/kernel /cache/my kernel\nloop-vault default 4096 /data/a vault\ndevice-vault fast /data/fast\n\
        device /dev/sdb\nplace probe /run/probe\n\
        program 0123456789abcdef0123456789abcdef boot tcg\nargument -M\nargument a b\n";

    #[test]
    fn reads_all_settings() {
        let config = Config::parse(WHOLE).unwrap();
        assert_eq!((config.node_uid, config.node_gid, config.first_uid), (12, 34, 1_900_000_000));
        assert_eq!(config.boot_files, [("/cache/my kernel".into(), "/boot/kernel".into())]);
        let program = |build: &str, by| {
            let (root, arguments) = config.program(&Kind::parse(build, "boot", by).unwrap())?;
            Ok::<_, Failure>((root.to_path_buf(), arguments.to_vec()))
        };
        let (root, arguments) = program("0123456789abcdef0123456789abcdef", "tcg").unwrap();
        assert_eq!((root, arguments), ("/my vmm".into(), vec!["-M".to_string(), "a b".to_string()]));
        assert!(program("0123456789abcdef0123456789abcdef", "kvm").is_err());
        assert!(program("1123456789abcdef0123456789abcdef", "tcg").is_err());
        let place = |name| config.place(&PlaceName::parse(name).unwrap()).map(|(path, _)| path);
        assert_eq!(place("default").unwrap(), PathBuf::from("/data/a vault/mnt"));
        assert_eq!(place("probe").unwrap(), PathBuf::from("/run/probe"));
        assert!(place("other").is_err());
        let more = Config::parse(&format!("{WHOLE}vaults-folder /data/more\n")).unwrap();
        let vault = more.vault(&PlaceName::parse("other").unwrap()).unwrap();
        assert_eq!(vault.mount_point(), PathBuf::from("/data/more/other/mnt"));
    }

    #[test]
    fn refuses_what_is_unclear_or_missing() {
        for broken in
            ["what 1", "node 1", "uids a b", "loop-vault X 1 /x", "place probe relative", "argument x", "device /x"]
        {
            assert!(Config::parse(&format!("{broken}\n{WHOLE}")).is_err(), "{broken}");
        }
        assert!(Config::parse("node 1 1\n").is_err());
    }
}
