//! Memory that is there before it is needed, stays there, and is not written anywhere.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::{ptr, slice};

pub const KEY_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// The largest that the kernel sends us or asks us for at once.
pub const MAX_REQUEST_BYTES: usize = 256 * 1024;

/// What the library allocates for requests is far larger than any request that we let the kernel make.
const LARGE_BYTES: usize = 8 * 1024 * 1024;
const TOUCHED_BYTES: usize = MAX_REQUEST_BYTES + 2 * PAGE_BYTES;

/// Has the part of large allocations that will be used made present at once. A page that was first touched while the kernel
/// writes to us in order to have memory would wait for itself.
pub struct TouchedAllocator;

unsafe impl GlobalAlloc for TouchedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let memory = unsafe { System.alloc_zeroed(layout) };
        if layout.size() >= LARGE_BYTES && !memory.is_null() {
            for offset in (0..TOUCHED_BYTES).step_by(PAGE_BYTES) {
                unsafe { ptr::write_volatile(memory.add(offset), 0) };
            }
        }
        memory
    }
}

/// All that is there, and all that will be as soon as it is touched.
pub fn lock_all() -> io::Result<()> {
    done(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) })
}

/// Pages of their own: aligned as direct I/O wants them, present, locked, never part of a dump.
pub struct Pages {
    start: *mut u8,
    bytes: usize,
}

unsafe impl Send for Pages {}

impl Pages {
    pub fn new(bytes: usize) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind | libc::MAP_POPULATE, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let pages = Self { start: start.cast(), bytes };
        done(unsafe { libc::mlock(start, bytes) })?;
        done(unsafe { libc::madvise(start, bytes, libc::MADV_DONTDUMP) })?;
        done(unsafe { libc::madvise(start, bytes, libc::MADV_WIPEONFORK) })?;
        Ok(pages)
    }

    pub fn bytes(&self) -> &[u8] {
        unsafe { slice::from_raw_parts(self.start, self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        unsafe { slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        for byte in self.bytes_mut() {
            unsafe { ptr::write_volatile(byte, 0) };
        }
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// The two keys of XTS.
pub struct Key(Pages);

impl Key {
    /// As many bytes, and then the end.
    pub fn read(from: OwnedFd) -> io::Result<Self> {
        let mut pages = Pages::new(PAGE_BYTES)?;
        let mut from = File::from(from);
        from.read_exact(&mut pages.bytes_mut()[..KEY_BYTES])?;
        match from.read(&mut pages.bytes_mut()[KEY_BYTES..])? {
            0 => Ok(Self(pages)),
            _ => Err(io::Error::other("the key is too long")),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes()[..KEY_BYTES]
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::FromRawFd;

    fn pipe_with(bytes: &[u8]) -> OwnedFd {
        let mut ends = [0; 2];
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [read, write] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        File::from(write).write_all(bytes).unwrap();
        read
    }

    #[test]
    fn a_key_has_64_bytes_and_no_other_number() {
        assert_eq!(Key::read(pipe_with(&[7; KEY_BYTES])).unwrap().bytes(), [7; KEY_BYTES]);
        for count in [0, KEY_BYTES - 1, KEY_BYTES + 1] {
            assert!(Key::read(pipe_with(&vec![7; count])).is_err(), "{count}");
        }
    }

    /// How much of the mapping around `address` is there, and how much of it is locked. The numbers of the whole process would
    /// count what other tests hold at the time.
    fn size_and_locked_kb(address: usize) -> (u64, u64) {
        let around = |line: &&str| {
            let range = line.split(' ').next().and_then(|word| word.split_once('-'));
            let ends = range.map(|(start, end)| (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16)));
            matches!(ends, Some((Ok(start), Ok(end))) if (start..end).contains(&address))
        };
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| !around(line));
        let mut kb = |name: &str| {
            let text = lines.find_map(|line| line.strip_prefix(name)).unwrap();
            text.trim().trim_end_matches(" kB").parse().unwrap()
        };
        (kb("Size:"), kb("Locked:"))
    }

    #[test]
    fn pages_are_aligned_and_locked() {
        let pages = Pages::new(16 * PAGE_BYTES).unwrap();
        let start = pages.bytes().as_ptr() as usize;
        assert_eq!(start % PAGE_BYTES, 0);
        let (size, locked) = size_and_locked_kb(start);
        assert!(size >= 64);
        assert_eq!(locked, size);
    }
}
