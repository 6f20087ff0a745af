//! Users of the guest, from its /etc/passwd and /etc/group. A static binary has no NSS, and the two files are all that a
//! sandbox has. They belong to guest root, so nothing in them is trusted: a bad line is skipped, a file that is not a
//! regular one or is too large counts as an error, and opening one never blocks.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use tonic::Status;

const DATABASE_MAX_BYTES: u64 = 4 << 20;
const ROOM_FOR_END: usize = 64;
const DEFAULT_USER: &str = "user";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: Vec<u8>,
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups, the primary one included.
    pub groups: Vec<u32>,
    pub home: Vec<u8>,
    pub shell: Vec<u8>,
}

/// The user of a request: a name, a decimal uid, or empty for "user".
pub fn requested(who: &str) -> Result<User, Status> {
    let passwd = read_regular(Path::new("/etc/passwd"), DATABASE_MAX_BYTES)
        .map_err(|e| crate::errno::status(&e, "/etc/passwd"))?;
    // Without groups a user is still a user.
    let group = read_regular(Path::new("/etc/group"), DATABASE_MAX_BYTES).unwrap_or_default();
    let who = if who.is_empty() { DEFAULT_USER } else { who };
    find(&passwd, &group, who.as_bytes())
        .ok_or_else(|| Status::invalid_argument(format!("no such user in the guest: {who:?}")))
}

/// The uid that a name or a decimal number stands for; a number needs no entry.
pub fn user_id(who: &str) -> Result<u32, Status> {
    match number(who.as_bytes()).filter(|uid| *uid != u32::MAX) {
        Some(uid) => Ok(uid),
        None => requested(who).map(|user| user.uid),
    }
}

/// The gid that a name or a decimal number stands for; a number needs no entry.
pub fn group_id(which: &str) -> Result<u32, Status> {
    if let Some(gid) = number(which.as_bytes()).filter(|gid| *gid != u32::MAX) {
        return Ok(gid);
    }
    let text = read_regular(Path::new("/etc/group"), DATABASE_MAX_BYTES)
        .map_err(|e| crate::errno::status(&e, "/etc/group"))?;
    let named = |line: &&[u8]| line.split(|b| *b == b':').next() == Some(which.as_bytes());
    let found = lines(&text).find(named).and_then(parse_group);
    found.map(|(gid, _)| gid).ok_or_else(|| Status::invalid_argument(format!("no such group in the guest: {which:?}")))
}

/// Whether it is a regular file with this at its end.
pub fn ends_with(path: &Path, end: &[u8]) -> bool {
    let is_there = || -> io::Result<bool> {
        let (file, length) = open_regular(path)?;
        let mut tail = vec![0; end.len()];
        let Some(from) = length.checked_sub(end.len() as u64) else { return Ok(false) };
        file.read_exact_at(&mut tail, from)?;
        Ok(tail == end)
    };
    is_there().unwrap_or(false)
}

fn find(passwd: &[u8], group: &[u8], who: &[u8]) -> Option<User> {
    let entries = || lines(passwd).filter_map(parse_passwd);
    let mut user = entries().find(|user| user.name == who).or_else(|| {
        let uid = number(who)?;
        entries().find(|user| user.uid == uid)
    })?;
    for (gid, members) in lines(group).filter_map(parse_group) {
        if !user.groups.contains(&gid) && members.split(|b| *b == b',').any(|m| m == user.name) {
            user.groups.push(gid);
        }
    }
    Some(user)
}

fn parse_passwd(line: &[u8]) -> Option<User> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b':').collect();
    let [name, _password, uid, gid, _gecos, home, shell] = fields[..] else { return None };
    let (uid, gid) = (number(uid)?, number(gid)?);
    // The kernel takes -1 for "leave it as it is": such a user would keep root's authority.
    if name.is_empty() || uid == u32::MAX || gid == u32::MAX {
        return None;
    }
    let or = |field: &[u8], default: &[u8]| if field.is_empty() { default.to_vec() } else { field.to_vec() };
    Some(User { name: name.to_vec(), uid, gid, groups: vec![gid], home: or(home, b"/"), shell: or(shell, b"/bin/sh") })
}

fn parse_group(line: &[u8]) -> Option<(u32, &[u8])> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b':').collect();
    let [_name, _password, gid, members] = fields[..] else { return None };
    Some((number(gid).filter(|gid| *gid != u32::MAX)?, members))
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n').filter(|line| !line.is_empty() && !line.contains(&0))
}

fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The whole of a small regular file; never blocks on a FIFO or a device that was put in its place.
pub fn read_regular(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let (file, length) = open_regular(path)?;
    // Room for all of it and to see its end, else a small file takes twice as many reads.
    let mut content = Vec::with_capacity(length.min(max_bytes) as usize + ROOM_FOR_END);
    file.take(max_bytes + 1).read_to_end(&mut content)?;
    if content.len() as u64 > max_bytes {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    Ok(content)
}

/// And its length.
fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let found = file.metadata()?;
    if found.is_file() { Ok((file, found.len())) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/bash\n\
        # a comment\nbroken\n\
        evil:x:4294967295:0::/:/bin/sh\nworse:x:-1:0::/:/bin/sh\n\
        user:x:1000:1000::/home/user:\n12:x:1001:1001::/n:/bin/sh\n";
    const GROUP: &[u8] = b"root:x:0:\nsudo:x:27:user\ndocker:x:998:other,user\nuser:x:1000:\nbad:x:4294967295:user\n";

    #[test]
    fn finds_by_name_with_groups() {
        let user = find(PASSWD, GROUP, b"user").unwrap();
        assert_eq!((user.uid, user.gid, &user.groups[..]), (1000, 1000, &[1000, 27, 998][..]));
        assert_eq!((&user.home[..], &user.shell[..]), (&b"/home/user"[..], &b"/bin/sh"[..]));
    }

    #[test]
    fn finds_by_uid_and_prefers_a_name() {
        assert_eq!(find(PASSWD, GROUP, b"0").unwrap().name, b"root");
        assert_eq!(find(PASSWD, GROUP, b"12").unwrap().uid, 1001);
        assert_eq!(find(PASSWD, GROUP, b"77"), None);
    }

    #[test]
    fn ignores_lines_that_could_keep_the_agents_authority() {
        assert_eq!(find(PASSWD, GROUP, b"evil"), None);
        assert_eq!(find(PASSWD, GROUP, b"worse"), None);
        assert_eq!(find(PASSWD, GROUP, b"+0"), None);
    }

    #[test]
    fn survives_garbage() {
        for seed in 0u32..200 {
            let text: Vec<u8> =
                (0..300u32).map(|i| (seed.wrapping_mul(31).wrapping_add(i * i * 7) % 251) as u8).collect();
            let _ = find(&text, &text, b"user");
        }
    }

    #[test]
    fn the_end_of_a_file_is_told_and_of_nothing_else() {
        let file = std::env::temp_dir().join(format!("space-agent-end-{}", std::process::id()));
        std::fs::write(&file, "first\nlast\n").unwrap();
        for (end, is_there) in
            [("last\n", true), ("first\nlast\n", true), ("", true), ("first\n", false), ("0first\nlast\n", false)]
        {
            assert_eq!(ends_with(&file, end.as_bytes()), is_there, "{end:?}");
        }
        assert!(!ends_with(&std::env::temp_dir(), b"") && !ends_with(&file.join("below"), b""));
        std::fs::remove_file(&file).unwrap();
    }
}
