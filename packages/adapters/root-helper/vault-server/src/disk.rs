//! The one file of the mount: each request is read or written in the container, opened or sealed on the way, by the thread
//! that took it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen, ReplyStatfs, ReplyWrite, Request, WriteFlags,
};

use crate::memory::{Key, MAX_REQUEST_BYTES, Pages};
use crate::sectors::{SECTOR_BYTES, Sectors};

/// Beyond these the kernel waits with further ones. As many as a loop device has under way.
const MAX_BACKGROUND: u16 = 128;
/// The size is the container's, which can grow at any time.
const NEVER_CACHED: Duration = Duration::ZERO;
const MODE: u16 = 0o600;
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

pub struct Disk {
    container: File,
    /// Where the data begins.
    offset: u64,
    /// One for each thread.
    workers: Mutex<Vec<Worker>>,
}

/// What a request needs while it is served.
struct Worker {
    sectors: Sectors,
    buffer: Pages,
}

impl Disk {
    pub fn open(container: File, offset: u64, key: &Key, threads: usize) -> io::Result<Self> {
        let workers: io::Result<_> = (0..threads)
            .map(|_| Ok(Worker { sectors: Sectors::new(key)?, buffer: Pages::new(MAX_REQUEST_BYTES)? }))
            .collect();
        Ok(Self { container, offset, workers: Mutex::new(workers?) })
    }

    fn bytes(&self) -> io::Result<u64> {
        let data = self.container.metadata()?.len().saturating_sub(self.offset);
        Ok(data / SECTOR_BYTES as u64 * SECTOR_BYTES as u64)
    }

    fn attributes(&self) -> io::Result<FileAttr> {
        let size = self.bytes()?;
        Ok(FileAttr {
            ino: INodeNo::ROOT,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: MODE,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: SECTOR_BYTES as u32,
            flags: 0,
        })
    }

    /// Whole sectors within the disk, no more than a worker holds.
    fn require_place(&self, position: u64, bytes: usize) -> io::Result<()> {
        let sector = SECTOR_BYTES as u64;
        let whole = position % sector == 0 && bytes as u64 % sector == 0 && bytes <= MAX_REQUEST_BYTES;
        let end = position.checked_add(bytes as u64).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        if whole && end <= self.bytes()? { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
    }

    fn read_into(&self, worker: &mut Worker, position: u64, bytes: usize) -> io::Result<()> {
        self.require_place(position, bytes)?;
        let buffer = &mut worker.buffer.bytes_mut()[..bytes];
        self.container.read_exact_at(buffer, self.offset + position)?;
        worker.sectors.open(position, buffer).map_err(io::Error::other)
    }

    fn write_from(&self, worker: &mut Worker, position: u64, data: &[u8]) -> io::Result<()> {
        self.require_place(position, data.len())?;
        let buffer = &mut worker.buffer.bytes_mut()[..data.len()];
        worker.sectors.seal(position, data, buffer).map_err(io::Error::other)?;
        self.container.write_all_at(buffer, self.offset + position)
    }

    fn sync(&self) -> io::Result<()> {
        self.container.sync_data()
    }

    /// Gives the space of whole sectors back. What is asked for in any other way the kernel then does by writing zeros.
    fn punch(&self, position: u64, bytes: u64, mode: i32) -> io::Result<()> {
        if mode != PUNCH {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let sector = SECTOR_BYTES as u64;
        let end = position.saturating_add(bytes).min(self.bytes()?) / sector * sector;
        let start = position.div_ceil(sector) * sector;
        if start >= end {
            return Ok(());
        }
        let (from, length) = ((self.offset + start) as libc::off_t, (end - start) as libc::off_t);
        let result = unsafe { libc::fallocate(self.container.as_raw_fd(), PUNCH, from, length) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// There are as many as threads, so one is always free.
    fn with_worker<T>(&self, work: impl FnOnce(&mut Worker) -> T) -> T {
        let taken = self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = taken.expect("a worker for each thread");
        let done = work(&mut worker);
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        done
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let refused = |_| io::Error::other("the kernel does not take the size of requests");
        config.set_max_write(MAX_REQUEST_BYTES as u32).map_err(refused)?;
        let _ = config.set_max_readahead(MAX_REQUEST_BYTES as u32);
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.set_congestion_threshold(MAX_BACKGROUND);
        // Without it each request of the loop device would wait for the one before.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn getattr(&self, _request: &Request, _ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes() {
            Ok(attributes) => reply.attr(&NEVER_CACHED, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let sector = SECTOR_BYTES as u32;
        let blocks = self.bytes().unwrap_or(0) / u64::from(sector);
        // The block size is what the loop device takes for the least that can be given back.
        reply.statfs(blocks, 0, 0, 1, 0, sector, 255, sector);
    }

    fn open(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // The page cache above is Btrfs's own.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.with_worker(|worker| match self.read_into(worker, offset, size as usize) {
            Ok(()) => reply.data(&worker.buffer.bytes()[..size as usize]),
            Err(error) => reply.error(errno(&error)),
        });
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.with_worker(|worker| match self.write_from(worker, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(&error)),
        });
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer(self.sync(), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(self.punch(offset, length, mode), reply);
    }
}

fn answer(done: io::Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}
