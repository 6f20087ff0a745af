//! The key of a vault while it passes through: from the node, over a socket that is its alone, into pipes of the programs that
//! need it. It is never a word of a request, an argument, an environment or a file; pipes live in the kernel's own memory.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{ptr, slice};

use crate::failure::{About, Failure, Result, check};
use crate::files::require_socket;
use crate::wire::readable_by;

pub const KEY_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// It shares 12 KiB of header with all else that is there.
const LONGEST_TOKEN: usize = 4096;
const READ_LIMIT: Duration = Duration::from_secs(5);

/// In memory of its own, which is locked, is in no dump, and is overwritten at the end.
pub struct Secret(*mut u8);

/// What comes with a request for a vault that has a key: the key, then the token as far as the socket goes.
pub struct Keyed {
    pub key: Secret,
    pub token: Option<String>,
}

impl Keyed {
    pub fn receive(from: OwnedFd) -> Result<Self> {
        require_socket(from.as_fd())?;
        let mut from = File::from(from);
        let deadline = Instant::now() + READ_LIMIT;
        let mut key = Secret::empty()?;
        if read(&mut from, key.bytes_mut(), deadline)? < KEY_BYTES {
            return Err(Failure::refused("the key is too short"));
        }
        let mut text = vec![0; LONGEST_TOKEN + 1];
        let count = read(&mut from, &mut text, deadline)?;
        text.truncate(count);
        let token = String::from_utf8(text).ok().filter(|text| text.len() <= LONGEST_TOKEN);
        let token = token.ok_or_else(|| Failure::refused("the token is too long, or no text"))?;
        // XTS with two equal keys is none.
        if key.bytes()[..KEY_BYTES / 2] == key.bytes()[KEY_BYTES / 2..] {
            return Err(Failure::refused("both halves of the key are equal"));
        }
        Ok(Self { key, token: Some(token).filter(|text| !text.is_empty()) })
    }
}

impl Secret {
    fn empty() -> Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, access, kind, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).about("memory for a key");
        }
        let secret = Self(page.cast());
        check("locking memory", unsafe { libc::mlock(page, PAGE_BYTES) }.into())?;
        for advice in [libc::MADV_DONTDUMP, libc::MADV_WIPEONFORK] {
            check("memory for a key", unsafe { libc::madvise(page, PAGE_BYTES, advice) }.into())?;
        }
        Ok(secret)
    }

    /// One that nobody knows.
    pub fn random() -> Result<Self> {
        let mut secret = Self::empty()?;
        File::open("/dev/urandom").and_then(|mut file| file.read_exact(secret.bytes_mut())).about("random bytes")?;
        Ok(secret)
    }

    fn bytes(&self) -> &[u8] {
        unsafe { slice::from_raw_parts(self.0, KEY_BYTES) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        unsafe { slice::from_raw_parts_mut(self.0, KEY_BYTES) }
    }

    /// The end of a pipe from which a program reads it, and then the end.
    pub fn pipe(&self) -> Result<OwnedFd> {
        let mut ends = [0; 2];
        check("pipe", unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
        let [from, to] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        File::from(to).write_all(self.bytes()).about("pipe")?;
        Ok(from)
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        for byte in self.bytes_mut() {
            unsafe { ptr::write_volatile(byte, 0) };
        }
        unsafe { libc::munmap(self.0.cast(), PAGE_BYTES) };
    }
}

/// As many as there are until the end, at most as many as fit.
fn read(from: &mut File, into: &mut [u8], deadline: Instant) -> Result<usize> {
    let mut count = 0;
    while count < into.len() {
        if !readable_by(from, deadline)? {
            return Err(Failure::refused("the key did not come in time"));
        }
        match from.read(&mut into[count..]).about("the key")? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn sent(bytes: &[u8]) -> Result<Keyed> {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(bytes).unwrap();
        drop(ours);
        Keyed::receive(theirs.into())
    }

    fn key() -> Vec<u8> {
        (0..KEY_BYTES as u8).collect()
    }

    #[test]
    fn the_key_comes_first_and_then_the_token() {
        let keyed = sent(&[key(), b"token".to_vec()].concat()).unwrap();
        assert_eq!((keyed.key.bytes(), keyed.token.as_deref()), (key().as_slice(), Some("token")));
        assert_eq!(sent(&key()).unwrap().token, None);
        let mut piped = vec![];
        File::from(keyed.key.pipe().unwrap()).read_to_end(&mut piped).unwrap();
        assert_eq!(piped, key());
    }

    #[test]
    fn what_is_no_key_or_no_token_is_refused() {
        let long = [key(), vec![b'a'; LONGEST_TOKEN + 1]].concat();
        for bytes in [vec![], key()[1..].to_vec(), vec![7; KEY_BYTES], long, [key(), vec![0xff]].concat()] {
            assert!(sent(&bytes).is_err(), "{} bytes", bytes.len());
        }
        let file = File::open("/dev/zero").unwrap();
        assert!(Keyed::receive(file.into()).is_err());
    }
}
