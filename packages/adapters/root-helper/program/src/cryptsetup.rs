//! LUKS2 containers by cryptsetup's own tool: it makes, checks and mends their headers in user space, whatever the kernel has.
//!
//! A container has no keyslot, so nothing opens it but the key of its data; its token holds that key as the customer's wrapped it.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{About, Failure, Result};
use crate::loops::{run, tool};
use crate::secret::Secret;
use crate::wire::quoted;

const TOOL: &str = "cryptsetup";
const KEY_BITS: &str = "512";
const TOKEN_TYPE: &str = "space-keyring";
const WRONG_KEY: i32 = 2;
/// The kernel makes no dump where that is the limit, neither into a file nor into a pipe.
const NO_CORE: libc::rlim_t = 1;

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Right,
    Wrong,
    /// Neither of its two headers can be read.
    NoContainer,
}

/// Few iterations are right: the key is 512 random bits and no passphrase. The keyslot that the tool insists on opens by something
/// that nobody knows, and is erased.
pub fn format(container: &Path, key: &Secret) -> Result<()> {
    let (data, passphrase) = (key.pipe()?, Secret::random()?.pipe()?);
    let mut command = tool(TOOL);
    command.args(["luksFormat", "--batch-mode", "--type", "luks2", "--cipher", "aes-xts-plain64"]);
    command.args(["--key-size", KEY_BITS, "--sector-size", "4096", "--pbkdf", "pbkdf2"]);
    command.args(["--pbkdf-force-iterations", "1000", "--luks2-metadata-size", "16k", "--luks2-keyslots-size", "256k"]);
    command.arg("--volume-key-file").arg(path_of(&data)).arg("--key-file").arg(path_of(&passphrase)).arg(container);
    lend(&mut command, vec![data, passphrase]);
    run(&mut command)?;
    run(tool(TOOL).args(["luksErase", "--batch-mode"]).arg(container)).map(drop)
}

/// In the place of the one that is there, if one is.
pub fn set_token(container: &Path, token: &str) -> Result<()> {
    let json = format!("{{\"type\":\"{TOKEN_TYPE}\",\"keyslots\":[],\"keyring\":{}}}", quoted(token));
    let mut command = tool(TOOL);
    command.args(["token", "import", "--token-id", "0", "--token-replace"]).arg(container).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().about(TOOL)?;
    let stdin = child.stdin.take().ok_or_else(|| Failure::new("internal", "cryptsetup has no input"))?;
    { stdin }.write_all(json.as_bytes()).about(TOOL)?;
    let done = child.wait_with_output().about(TOOL)?;
    if done.status.success() {
        return Ok(());
    }
    Err(Failure::unavailable(format!("the token was not written: {}", String::from_utf8_lossy(&done.stderr).trim())))
}

/// Changes nothing, but that a header of which one of the two copies is broken is mended from the other.
pub fn check_key(container: &Path, header: Option<&Path>, key: &Secret) -> Result<Verdict> {
    let data = key.pipe()?;
    let mut command = tool(TOOL);
    command.args(["open", "--type", "luks2", "--test-passphrase", "--key-size", KEY_BITS, "--volume-key-file"]);
    command.arg(path_of(&data));
    if let Some(header) = header {
        command.arg("--header").arg(header);
    }
    command.arg(container);
    lend(&mut command, vec![data]);
    let done = command.output().about(TOOL)?;
    match done.status.code() {
        Some(0) => Ok(Verdict::Right),
        Some(WRONG_KEY) => Ok(Verdict::Wrong),
        Some(_) => Ok(Verdict::NoContainer),
        None => Err(Failure::unavailable("cryptsetup was stopped")),
    }
}

pub fn back_up_header(container: &Path, to: &Path) -> Result<()> {
    run(tool(TOOL).arg("luksHeaderBackup").arg("--header-backup-file").arg(to).arg(container)).map(drop)
}

pub fn restore_header(container: &Path, from: &Path) -> Result<()> {
    let mut command = tool(TOOL);
    run(command.args(["luksHeaderRestore", "--batch-mode", "--header-backup-file"]).arg(from).arg(container)).map(drop)
}

/// Where the data begins; refuses a container whose data lies in any other way than we make it.
pub fn data_offset(container: &Path) -> Result<u64> {
    let said = run(tool(TOOL).arg("luksDump").arg(container))?;
    offset_in(&said).ok_or_else(|| {
        Failure::new("vault_damaged", format!("{} is no container that this platform made", container.display()))
    })
}

fn offset_in(dump: &str) -> Option<u64> {
    let mut lines = dump.lines().map(str::trim).skip_while(|line| *line != "Data segments:").skip(1);
    let next = |lines: &mut dyn Iterator<Item = &str>, expected: &str| (lines.next()? == expected).then_some(());
    next(&mut lines, "0: crypt")?;
    let offset = lines.next()?.strip_prefix("offset: ")?.strip_suffix(" [bytes]")?.parse().ok()?;
    next(&mut lines, "length: (whole device)")?;
    next(&mut lines, "cipher: aes-xts-plain64")?;
    next(&mut lines, "sector: 4096 [bytes]")?;
    next(&mut lines, "")?;
    // A second one would follow here.
    next(&mut lines, "Keyslots:")?;
    (offset % 4096 == 0).then_some(offset)
}

pub fn uuid_of(container: &Path) -> Result<String> {
    run(tool(TOOL).arg("luksUUID").arg(container)).map(|uuid| uuid.trim().into())
}

/// Has the kernel show the plain view as a device of this name.
pub fn open_mapping(container: &Path, name: &str, key: &Secret) -> Result<()> {
    let data = key.pipe()?;
    let mut command = tool(TOOL);
    command.args(["open", "--type", "luks2", "--key-size", KEY_BITS, "--allow-discards", "--volume-key-file"]);
    command.arg(path_of(&data)).arg(container).arg(name);
    lend(&mut command, vec![data]);
    run(&mut command).map(drop)
}

pub fn close_mapping(name: &str) -> Result<()> {
    run(tool(TOOL).args(["close", name])).map(drop)
}

/// Whether the kernel does it at all: something without a header, that holds nothing.
pub fn try_mapping(device: &Path, name: &str) -> Result<()> {
    let key = Secret::random()?.pipe()?;
    let mut command = tool(TOOL);
    command.args(["open", "--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", KEY_BITS, "--key-file"]);
    command.arg(path_of(&key)).args(["--keyfile-size", "64"]).arg(device).arg(name);
    lend(&mut command, vec![key]);
    run(&mut command)?;
    close_mapping(name)
}

fn path_of(fd: &OwnedFd) -> String {
    format!("/dev/fd/{}", fd.as_raw_fd())
}

/// The program has them by the same numbers, and leaves no dump behind.
fn lend(command: &mut Command, fds: Vec<OwnedFd>) {
    let keep = move || {
        for fd in &fds {
            if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        let limit = libc::rlimit { rlim_cur: NO_CORE, rlim_max: NO_CORE };
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &limit) };
        Ok(())
    };
    unsafe { command.pre_exec(keep) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "LUKS header information\nVersion:       \t2\n\nData segments:\n  0: crypt\n\toffset: 1048576 [bytes]\n\
        \tlength: (whole device)\n\tcipher: aes-xts-plain64\n\tsector: 4096 [bytes]\n\nKeyslots:\nTokens:\n";

    #[test]
    fn only_a_container_as_we_make_it_is_taken() {
        assert_eq!(offset_in(DUMP), Some(1024 * 1024));
        for (from, to) in [
            ("crypt", "linear"),
            ("1048576", "1048577"),
            ("(whole device)", "4096 [bytes]"),
            ("aes-xts-plain64", "cipher_null-ecb"),
            ("sector: 4096", "sector: 512"),
            ("\n\nKeyslots", "\n\n  1: crypt\nKeyslots"),
        ] {
            assert_eq!(offset_in(&DUMP.replace(from, to)), None, "{to}");
        }
        assert_eq!(offset_in(""), None);
    }
}
