//! What is asked for, as arguments; whoever starts the warden is root and is trusted.

use std::ffi::CString;
use std::io::{Error, Result};
use std::path::PathBuf;

pub struct Plan {
    pub uid: libc::uid_t,
    /// The one supplementary group, e.g. that of /dev/kvm.
    pub group: Option<libc::gid_t>,
    /// `cgroup.procs` files to join.
    pub cgroups: Vec<String>,
    /// Sockets made in the working directory; the program gets them from descriptor 3 on.
    pub listen: Vec<String>,
    /// Seen inside under the same path, read-only.
    pub folder: PathBuf,
    /// Single files: where they are, and their path inside. Read-only.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Below /dev.
    pub devices: Vec<String>,
    /// Largest length of a file that it writes.
    pub file_bytes: u64,
    pub threads: u64,
    pub program: Vec<CString>,
}

impl Plan {
    /// `--name value` pairs in any order, then `--` and the program.
    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let (mut uid, mut group, mut folder) = (None, None, None);
        let (mut cgroups, mut listen, mut files, mut devices) = (vec![], vec![], vec![], vec![]);
        let (mut file_bytes, mut threads) = (0, 0);
        while let Some(name) = arguments.next().filter(|name| name != "--") {
            let value = arguments.next().ok_or_else(|| unclear(&name))?;
            match name.as_str() {
                "--uid" => uid = Some(number(&name, &value)?),
                "--group" => group = Some(number(&name, &value)?),
                "--cgroup" => cgroups.push(value),
                "--listen" => listen.push(value),
                "--folder" => folder = Some(PathBuf::from(value)),
                "--file" => {
                    let (outside, inside) = value.split_once(':').ok_or_else(|| unclear(&name))?;
                    files.push((outside.into(), inside.into()));
                }
                "--device" => devices.push(value),
                "--file-bytes" => file_bytes = number(&name, &value)?,
                "--threads" => threads = number(&name, &value)?,
                _ => return Err(unclear(&name)),
            }
        }
        let uid = uid.filter(|uid| *uid != 0).ok_or_else(|| unclear("--uid"))?;
        let folder = folder.ok_or_else(|| unclear("--folder"))?;
        let program = arguments
            .map(|argument| CString::new(argument).map_err(|_| unclear("the program")))
            .collect::<Result<Vec<_>>>()?;
        if program.is_empty() {
            return Err(unclear("the program"));
        }
        Ok(Self { uid, group, cgroups, listen, folder, files, devices, file_bytes, threads, program })
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| unclear(name))
}

fn unclear(name: &str) -> Error {
    Error::other(format!("{name} is missing or unclear"))
}
