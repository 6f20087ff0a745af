//! Takes on the identity that the host gives: clock, entropy, hostname, machine-id, generation. Each is read back from where
//! a program in the guest would read it, and the host compares; so a refusal by the kernel or a trick of guest root shows.
//!
//! Files that already say the right thing are not written: a resume changes none of them. The others are written in place,
//! which needs no new block on a full disk; user processes are frozen meanwhile, so nobody sees half a file.
//!
//! Clock, entropy, hostname and generation are the kernel's or the agent's own, and always set. A file is the guest's: what
//! guest root has put in the place of one is moved aside, or, on a disk that takes no change, covered by a file in memory.
//! When nothing helps the reply says nothing in its place, and the sandbox goes on without it.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use tonic::Status;

use crate::contract::{AssumeIdentityReply, AssumeIdentityRequest};
use crate::errno::{check, status};
use crate::log;
use crate::machine::clock_ns;
use crate::trust;
use crate::users::read_regular;

const ENTROPY_MIN_BYTES: usize = 32;
const ENTROPY_MAX_BYTES: usize = 512;
const HOSTNAME_MAX_BYTES: usize = 64;
const CLOCK_RULE: &str = "wall_clock_ns: nanoseconds since 1970";
const FILE_MAX_BYTES: u64 = 64 << 10;
/// Things that were in the place of a file before; beyond so many none is moved aside any more.
const MAX_ASIDE: u32 = 16;
const MACHINE_ID_FILE: &str = "/etc/machine-id";
const GENERATION_FILE: &str = "/run/space/generation";
const SANDBOX_FILE: &str = "/run/space/sandbox";
/// In memory.
const COVERS: &str = "/run/space";

// <linux/random.h>; libc names neither.
const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
const RNDRESEEDCRNG: libc::c_ulong = 0x5207;

pub struct Identity {
    /// Opened before any user code ran, so that it is the kernel's.
    random: Option<File>,
    /// Leave the machine as it is and answer from memory; only the entropy is given to the kernel, which harms nobody.
    dry: bool,
}

impl Identity {
    pub fn new(dry: bool) -> Self {
        let random = File::open("/dev/random").inspect_err(|e| log::error(&format!("/dev/random: {e}"))).ok();
        Self { random, dry }
    }

    pub fn assume(&self, wanted: &AssumeIdentityRequest) -> Result<AssumeIdentityReply, Status> {
        validate(wanted)?;
        let entropy_credited = self.random.as_ref().is_some_and(|device| {
            reseed(device, &wanted.entropy).inspect_err(|e| log::error(&format!("reseed: {e}"))).is_ok()
        });
        if self.dry {
            return Ok(AssumeIdentityReply {
                wall_clock_ns: wanted.wall_clock_ns,
                hostname: wanted.hostname.clone(),
                machine_id: wanted.machine_id.clone(),
                generation: wanted.generation,
                entropy_credited,
            });
        }
        set_clock(wanted.wall_clock_ns).map_err(|e| status(&e, "clock_settime"))?;
        let hostname = set_hostname(&wanted.hostname).map_err(|e| status(&e, "sethostname"))?;
        let machine_id = keep_file(MACHINE_ID_FILE, &wanted.machine_id);
        keep_file(GENERATION_FILE, &wanted.generation.to_string());
        keep_file(SANDBOX_FILE, &wanted.sandbox_id);
        trust::keep(&wanted.trust);
        Ok(AssumeIdentityReply {
            wall_clock_ns: clock_ns(libc::CLOCK_REALTIME),
            hostname,
            machine_id: machine_id.unwrap_or_default(),
            generation: wanted.generation,
            entropy_credited,
        })
    }

    /// Makes up for time in which the processors stood still; never sets the clock back.
    pub fn advance_clock(&self, ns: u64) -> Result<(), Status> {
        if self.dry || ns <= clock_ns(libc::CLOCK_REALTIME) {
            return Ok(());
        }
        if i64::try_from(ns).is_err() {
            return Err(Status::invalid_argument(CLOCK_RULE));
        }
        set_clock(ns).map_err(|e| status(&e, "clock_settime"))
    }
}

fn validate(wanted: &AssumeIdentityRequest) -> Result<(), Status> {
    let name = wanted.hostname.as_bytes();
    let rules = [
        (
            (1..=HOSTNAME_MAX_BYTES).contains(&name.len())
                && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-' || *b == b'.'),
            "hostname: 1 to 64 letters, digits, '-' and '.'",
        ),
        (
            wanted.machine_id.len() == 32 && wanted.machine_id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
            "machine_id: 32 lower-case hex digits",
        ),
        (
            (1..=128).contains(&wanted.sandbox_id.len()) && wanted.sandbox_id.bytes().all(|b| b.is_ascii_graphic()),
            "sandbox_id: 1 to 128 printable ASCII characters",
        ),
        ((ENTROPY_MIN_BYTES..=ENTROPY_MAX_BYTES).contains(&wanted.entropy.len()), "entropy: 32 to 512 bytes"),
        (trust::is_valid(&wanted.trust), "trust: PEM certificates, at most 64 KiB"),
        (i64::try_from(wanted.wall_clock_ns).is_ok_and(|ns| ns > 0), CLOCK_RULE),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(Status::invalid_argument(*rule)),
        None => Ok(()),
    }
}

fn set_clock(ns: u64) -> io::Result<()> {
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    check(unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &time) }).map(drop)
}

/// Credits the entropy and has the generator take it at once: two forks of one snapshot must not share a single output.
fn reseed(device: &File, entropy: &[u8]) -> io::Result<()> {
    #[repr(C)]
    struct PoolInfo {
        entropy_bits: i32,
        size_bytes: i32,
        buffer: [u8; ENTROPY_MAX_BYTES],
    }
    let mut info = PoolInfo {
        entropy_bits: entropy.len() as i32 * 8,
        size_bytes: entropy.len() as i32,
        buffer: [0; ENTROPY_MAX_BYTES],
    };
    info.buffer[..entropy.len()].copy_from_slice(entropy);
    check(unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &info) })?;
    check(unsafe { libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG) }).map(drop)
}

fn set_hostname(name: &str) -> io::Result<String> {
    let now = hostname()?;
    if now == name {
        return Ok(now);
    }
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })?;
    // The two files are a convenience: a guest root who made them unwritable has a stale name in them, no more.
    let hosts = read_regular(Path::new("/etc/hosts"), FILE_MAX_BYTES).unwrap_or_default();
    let written = replace_file("/etc/hostname", format!("{name}\n").as_bytes())
        .and_then(|()| replace_file("/etc/hosts", &hosts_with(&hosts, name)));
    if let Err(error) = written {
        log::error(&format!("hostname files: {error}"));
    }
    hostname()
}

fn hostname() -> io::Result<String> {
    let mut buffer = [0u8; HOSTNAME_MAX_BYTES + 1];
    check(unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len()) })?;
    let name = buffer.split(|b| *b == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The hosts file with our name on Debian's line for it.
fn hosts_with(hosts: &[u8], name: &str) -> Vec<u8> {
    const OURS: &[u8] = b"127.0.1.1";
    let mut lines: Vec<&[u8]> = hosts.split(|b| *b == b'\n').filter(|line| !line.starts_with(OURS)).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let ours = [OURS, b"\t", name.as_bytes()].concat();
    lines.push(&ours);
    let mut text = lines.join(&b'\n');
    text.push(b'\n');
    text
}

/// Makes the file hold the line and returns the line that it holds; none when that cannot be brought about.
fn keep_file(path: &str, line: &str) -> Option<String> {
    let read = || {
        let text = read_regular(Path::new(path), FILE_MAX_BYTES).ok()?;
        let now = String::from_utf8_lossy(&text).trim_end().to_owned();
        (now == line).then_some(now)
    };
    if let Some(now) = read() {
        return Some(now);
    }
    if let Err(error) = put_file(path, format!("{line}\n").as_bytes()) {
        log::error(&format!("{path}: {error}"));
    }
    read()
}

/// Makes the file hold the content, whatever guest root has put in its place.
pub fn put_file(path: &str, content: &[u8]) -> io::Result<()> {
    replace_file(path, content)
        .or_else(|_| clear_place(path).and_then(|()| replace_file(path, content)))
        .or_else(|_| cover(path, content))
}

pub fn read_or_empty(path: &Path, max_bytes: u64) -> Vec<u8> {
    read_regular(path, max_bytes).unwrap_or_default()
}

/// A directory in the place of a file goes aside with all that is in it: it is the guest's.
fn clear_place(path: &str) -> io::Result<()> {
    let mut names = (1..=MAX_ASIDE).map(|number| format!("{path}.aside-{number}"));
    let free = names.find(|aside| fs::symlink_metadata(aside).is_err());
    fs::rename(path, free.ok_or(io::ErrorKind::AlreadyExists)?)
}

/// Lays a file in memory over one that cannot be written. The mount stays for as long as the machine, and the next life
/// writes through it.
fn cover(path: &str, content: &[u8]) -> io::Result<()> {
    // Only a file can lie over a file.
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let name = Path::new(path).file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let memory = format!("{COVERS}/cover-{name}");
    replace_file(&memory, content)?;
    let (source, target) = (CString::new(memory)?, CString::new(path)?);
    let none = std::ptr::null();
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), none, libc::MS_BIND, none.cast()) }).map(drop)
}

fn replace_file(path: &str, content: &[u8]) -> io::Result<()> {
    let open = |flags: i32| {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | flags)
            .open(path)
    };
    let first = match open(0) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(Path::new(path).parent().unwrap_or(Path::new("/")))?;
            open(0)
        }
        opened => opened,
    };
    let file = match first {
        Ok(file) if file.metadata()?.is_file() => file,
        // A link or a special file that was put there: not ours to write through.
        Ok(_) => fresh(path, open)?,
        Err(e) if matches!(e.raw_os_error(), Some(libc::ELOOP | libc::ENXIO)) => fresh(path, open)?,
        Err(e) => return Err(e),
    };
    file.write_all_at(content, 0)?;
    // To cut a file takes the file system a transaction, also where there is nothing to cut.
    if file.metadata()?.len() == content.len() as u64 { Ok(()) } else { file.set_len(content.len() as u64) }
}

fn fresh(path: &str, open: impl Fn(i32) -> io::Result<File>) -> io::Result<File> {
    fs::remove_file(path)?;
    open(libc::O_EXCL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_keeps_other_lines_and_has_one_of_ours() {
        let before = b"127.0.0.1 localhost\n127.0.1.1 old older\n10.0.0.1 db\n\n";
        let after = hosts_with(before, "new");
        assert_eq!(after, b"127.0.0.1 localhost\n10.0.0.1 db\n127.0.1.1\tnew\n");
        assert_eq!(hosts_with(&after, "new"), after);
        assert_eq!(hosts_with(b"", "new"), b"127.0.1.1\tnew\n");
    }

    #[test]
    fn identity_with_a_bad_field_is_refused() {
        let good = AssumeIdentityRequest {
            sandbox_id: "sbx_1".into(),
            life_id: "life_1".into(),
            generation: 1,
            hostname: "sandbox".into(),
            machine_id: "0123456789abcdef0123456789abcdef".into(),
            wall_clock_ns: 1,
            entropy: vec![1; 32].into(),
            fresh: false,
            trust: [].as_slice().into(),
        };
        assert!(validate(&good).is_ok());
        assert!(validate(&AssumeIdentityRequest { hostname: "a\n127.0.0.1 b".into(), ..good.clone() }).is_err());
        assert!(validate(&AssumeIdentityRequest { machine_id: "X".repeat(32), ..good.clone() }).is_err());
        assert!(validate(&AssumeIdentityRequest { entropy: vec![1; 31].into(), ..good.clone() }).is_err());
        assert!(validate(&AssumeIdentityRequest { sandbox_id: "a b".into(), ..good.clone() }).is_err());
        assert!(validate(&AssumeIdentityRequest { wall_clock_ns: u64::MAX, ..good.clone() }).is_err());
        assert!(validate(&AssumeIdentityRequest { trust: b"no PEM".as_slice().into(), ..good }).is_err());
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_replaced() {
        let directory = std::env::temp_dir().join(format!("space-agent-identity-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (target, link) = (directory.join("target"), directory.join("link"));
        fs::write(&target, "untouched").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        replace_file(link.to_str().unwrap(), b"new\n").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"untouched");
        assert_eq!(fs::read(&link).unwrap(), b"new\n");
        replace_file(link.to_str().unwrap(), b"x").unwrap();
        assert_eq!(fs::read(&link).unwrap(), b"x");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_directory_in_the_place_of_a_file_goes_aside_with_what_is_in_it() {
        let directory = std::env::temp_dir().join(format!("space-agent-aside-{}", std::process::id()));
        let place = directory.join("machine-id");
        let path = place.to_str().unwrap();
        for round in 1..=MAX_ASIDE {
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("kept"), round.to_string()).unwrap();
            assert_eq!(keep_file(path, "line").as_deref(), Some("line"));
            assert_eq!(fs::read_to_string(&place).unwrap(), "line\n");
            let kept = directory.join(format!("machine-id.aside-{round}/kept"));
            assert_eq!(fs::read_to_string(kept).unwrap(), round.to_string());
            fs::remove_file(&place).unwrap();
        }
        fs::create_dir_all(&place).unwrap();
        assert_eq!(keep_file(path, "line"), None);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_had_is_told_as_none() {
        let file = std::env::temp_dir().join(format!("space-agent-no-place-{}", std::process::id()));
        fs::write(&file, "no directory").unwrap();
        assert_eq!(keep_file(file.join("below").to_str().unwrap(), "line"), None);
        assert_eq!(fs::read_to_string(&file).unwrap(), "no directory");
        fs::remove_file(&file).unwrap();
    }
}
