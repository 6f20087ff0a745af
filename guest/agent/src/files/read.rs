//! Reading a regular file in chunks. Devices and FIFOs are refused before they are opened, since opening one can have an
//! effect; and again after it, since a name can change its meaning in between. With O_NONBLOCK that open can't hang either.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tonic::Status;

use crate::contract::{FileStatus, ReadReply, read_reply::Part};
use crate::errno::status;

use super::status::{Facts, describe};

pub const CHUNK_BYTES: usize = 64 << 10;
/// Chunks between the thread and the connection: 256 KiB.
pub const QUEUED_CHUNKS: usize = 4;

pub type Chunks = mpsc::Sender<Result<ReadReply, Status>>;

/// Where to read; without a length, to the end.
pub struct Range {
    pub offset: u64,
    pub length: Option<u64>,
}

pub fn read(path: &Path, range: &Range, chunks: &Chunks) -> Result<(), Status> {
    let (file, found) = open(path)?;
    if chunks.blocking_send(Ok(reply(Part::Status(found)))).is_err() {
        return Ok(());
    }
    let mut left = range.length.unwrap_or(u64::MAX);
    let mut offset = range.offset;
    while left > 0 {
        let mut chunk = vec![0; left.min(CHUNK_BYTES as u64) as usize];
        let length = file.read_at(&mut chunk, offset).map_err(|e| status(&e, "read"))?;
        chunk.truncate(length);
        // The reader may have left, which is no error.
        if length == 0 || chunks.blocking_send(Ok(reply(Part::Data(Bytes::from(chunk))))).is_err() {
            return Ok(());
        }
        offset += length as u64;
        left -= length as u64;
    }
    Ok(())
}

fn open(path: &Path) -> Result<(File, FileStatus), Status> {
    refuse_special(&fs::metadata(path).map_err(|e| status(&e, "stat"))?)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|e| status(&e, "open"))?;
    let metadata = file.metadata().map_err(|e| status(&e, "stat"))?;
    refuse_special(&metadata)?;
    Ok((file, describe(path.file_name().unwrap_or_default(), &Facts::from(&metadata), None)))
}

pub fn refuse_special(metadata: &fs::Metadata) -> Result<(), Status> {
    if metadata.is_dir() {
        Err(Status::failed_precondition("EISDIR: is a directory"))
    } else if metadata.is_file() {
        Ok(())
    } else {
        Err(Status::failed_precondition("not a regular file"))
    }
}

fn reply(part: Part) -> ReadReply {
    ReadReply { part: Some(part) }
}
