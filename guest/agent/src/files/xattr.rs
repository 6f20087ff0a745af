//! Extended attributes. Which namespaces a user may see and set is the kernel's to say: `user.*` with the rights to the file,
//! the others for root.

use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

use prost::bytes::Bytes;
use tonic::Status;

use crate::errno::{check, status};

use super::durable::sync_entry;
use super::path::c_name;

/// The kernel's own limits, of a value and of all names of a file.
const MAX_BYTES: usize = 64 << 10;

pub struct Attribute {
    path: CString,
    no_follow: bool,
}

impl Attribute {
    pub fn of(path: &Path, no_follow: bool) -> Result<Self, Status> {
        Ok(Self { path: c_name(path.as_os_str())?, no_follow })
    }

    pub fn names(&self) -> Result<Vec<Bytes>, Status> {
        let call = if self.no_follow { libc::llistxattr } else { libc::listxattr };
        let text = filled(|buffer, size| unsafe { call(self.path.as_ptr(), buffer.cast(), size) })
            .map_err(|e| status(&e, "listxattr"))?;
        let mut names: Vec<Bytes> =
            text.split(|b| *b == 0).filter(|name| !name.is_empty()).map(Bytes::copy_from_slice).collect();
        names.sort_unstable();
        Ok(names)
    }

    pub fn get(&self, name: &[u8]) -> Result<Bytes, Status> {
        let name = attribute_name(name)?;
        let call = if self.no_follow { libc::lgetxattr } else { libc::getxattr };
        filled(|buffer, size| unsafe { call(self.path.as_ptr(), name.as_ptr(), buffer.cast(), size) })
            .map(Bytes::from)
            .map_err(|e| status(&e, "getxattr"))
    }

    pub fn set(&self, name: &[u8], value: &[u8], path: &Path) -> Result<(), Status> {
        let name = attribute_name(name)?;
        let call = if self.no_follow { libc::lsetxattr } else { libc::setxattr };
        check(unsafe { call(self.path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) })
            .map_err(|e| status(&e, "setxattr"))?;
        sync_entry(path);
        Ok(())
    }

    pub fn remove(&self, name: &[u8], path: &Path) -> Result<(), Status> {
        let name = attribute_name(name)?;
        let call = if self.no_follow { libc::lremovexattr } else { libc::removexattr };
        check(unsafe { call(self.path.as_ptr(), name.as_ptr()) }).map_err(|e| status(&e, "removexattr"))?;
        sync_entry(path);
        Ok(())
    }
}

fn filled(read: impl FnOnce(*mut u8, usize) -> isize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0u8; MAX_BYTES];
    let length = check(read(buffer.as_mut_ptr(), buffer.len()))?;
    buffer.truncate(length as usize);
    Ok(buffer)
}

fn attribute_name(name: &[u8]) -> Result<CString, Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("EINVAL: an attribute needs a name"));
    }
    CStr::from_bytes_with_nul(&[name, b"\0"].concat())
        .map(CStr::to_owned)
        .map_err(|_| Status::invalid_argument("EINVAL: the name of an attribute holds a zero byte"))
}
