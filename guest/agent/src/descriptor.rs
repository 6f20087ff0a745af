//! Descriptors that the runtime watches.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Something that owns its descriptor, and so keeps it open and the same for as long as it is watched.
pub trait Owned: AsRawFd {}

impl Owned for OwnedFd {}
impl Owned for File {}

pub fn watch<T: Owned>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: an `Owned` closes its descriptor only when it is dropped, which the AsyncFd does after it has stopped watching.
    unsafe { AsyncFd::register_with_interest(owner, interest) }.map_err(io::Error::from)
}
