//! Paths of requests: opaque bytes, absolute or relative to the user's home.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tonic::Status;

use crate::users::User;

pub fn resolve(user: &User, path: &[u8]) -> Result<PathBuf, Status> {
    if path.is_empty() {
        return Err(Status::invalid_argument("ENOENT: empty path"));
    }
    if path.contains(&0) {
        return Err(Status::invalid_argument("EINVAL: path holds a zero byte"));
    }
    Ok(Path::new(OsStr::from_bytes(&user.home)).join(OsStr::from_bytes(path)))
}

/// Directory and last component of a path that names a file to be made.
pub fn split(path: &Path) -> Result<(&Path, &OsStr), Status> {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|b| *b == b'/').unwrap_or(0);
    let name = bytes.get(at + 1..).unwrap_or_default();
    if name.is_empty() || name == b"." || name == b".." {
        return Err(Status::failed_precondition("EISDIR: the path names a directory"));
    }
    Ok((Path::new(OsStr::from_bytes(&bytes[..at.max(1)])), OsStr::from_bytes(name)))
}

/// Directory and last component of a path that names an entry of any kind; slashes at its end say nothing.
pub fn entry(path: &Path) -> Result<(&Path, &OsStr), Status> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|b| *b != b'/').map_or(0, |last| last + 1);
    match split(Path::new(OsStr::from_bytes(&bytes[..end]))) {
        Ok(found) if end > 0 => Ok(found),
        _ => Err(Status::invalid_argument("EINVAL: the path does not end in a name")),
    }
}

pub fn c_name(name: &OsStr) -> Result<CString, Status> {
    CString::new(name.as_bytes()).map_err(|_| Status::invalid_argument("EINVAL: path holds a zero byte"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User { name: b"u".into(), uid: 1, gid: 1, groups: vec![1], home: b"/home/u".into(), shell: b"/bin/sh".into() }
    }

    #[test]
    fn relative_paths_start_at_home() {
        assert_eq!(resolve(&user(), b"a/\xff").unwrap().as_os_str().as_bytes(), b"/home/u/a/\xff");
        assert_eq!(resolve(&user(), b"/a").unwrap(), Path::new("/a"));
        assert!(resolve(&user(), b"").is_err());
        assert!(resolve(&user(), b"a\0b").is_err());
    }

    #[test]
    fn a_file_to_write_has_a_directory_and_a_name() {
        assert_eq!(split(Path::new("/a/b")).unwrap(), (Path::new("/a"), OsStr::new("b")));
        assert_eq!(split(Path::new("/b")).unwrap(), (Path::new("/"), OsStr::new("b")));
        for bad in ["/", "/a/", "/a/.", "/a/.."] {
            assert!(split(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_entry_is_named_with_or_without_slashes() {
        for path in ["/a/b", "/a/b/", "/a/b//"] {
            assert_eq!(entry(Path::new(path)).unwrap(), (Path::new("/a"), OsStr::new("b")));
        }
        for bad in ["/", "//", "/a/.", "/a/../"] {
            assert!(entry(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
