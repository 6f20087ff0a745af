//! What an errno means to the host. One table: name and gRPC code. A message always starts with the errno's name, so that
//! the host can tell causes apart without parsing prose; for files its own table gives each name one meaning.

use std::io;

use tonic::{Code, Status};

const TABLE: &[(i32, &str, Code)] = &[
    (libc::ENOENT, "ENOENT", Code::NotFound),
    (libc::ESRCH, "ESRCH", Code::NotFound),
    (libc::ENODATA, "ENODATA", Code::NotFound),
    (libc::EACCES, "EACCES", Code::PermissionDenied),
    (libc::EPERM, "EPERM", Code::PermissionDenied),
    (libc::EROFS, "EROFS", Code::FailedPrecondition),
    (libc::EISDIR, "EISDIR", Code::FailedPrecondition),
    (libc::ENOTDIR, "ENOTDIR", Code::FailedPrecondition),
    (libc::EXDEV, "EXDEV", Code::FailedPrecondition),
    (libc::ENOTEMPTY, "ENOTEMPTY", Code::FailedPrecondition),
    (libc::EBUSY, "EBUSY", Code::FailedPrecondition),
    (libc::ETXTBSY, "ETXTBSY", Code::FailedPrecondition),
    (libc::ELOOP, "ELOOP", Code::FailedPrecondition),
    (libc::ENXIO, "ENXIO", Code::FailedPrecondition),
    (libc::ENODEV, "ENODEV", Code::FailedPrecondition),
    (libc::EOPNOTSUPP, "EOPNOTSUPP", Code::FailedPrecondition),
    (libc::EFBIG, "EFBIG", Code::FailedPrecondition),
    (libc::EMLINK, "EMLINK", Code::FailedPrecondition),
    (libc::ENOSPC, "ENOSPC", Code::ResourceExhausted),
    (libc::EDQUOT, "EDQUOT", Code::ResourceExhausted),
    (libc::EMFILE, "EMFILE", Code::ResourceExhausted),
    (libc::ENFILE, "ENFILE", Code::ResourceExhausted),
    (libc::ENOMEM, "ENOMEM", Code::ResourceExhausted),
    (libc::EAGAIN, "EAGAIN", Code::ResourceExhausted),
    (libc::ENAMETOOLONG, "ENAMETOOLONG", Code::InvalidArgument),
    (libc::E2BIG, "E2BIG", Code::InvalidArgument),
    (libc::ERANGE, "ERANGE", Code::InvalidArgument),
    (libc::EINVAL, "EINVAL", Code::InvalidArgument),
    (libc::ENOEXEC, "ENOEXEC", Code::InvalidArgument),
    (libc::ELIBBAD, "ELIBBAD", Code::InvalidArgument),
    (libc::EEXIST, "EEXIST", Code::AlreadyExists),
    (libc::EUCLEAN, "EUCLEAN", Code::FailedPrecondition),
    (libc::EIO, "EIO", Code::Internal),
];

pub fn code(errno: i32) -> Code {
    find(errno).map_or(Code::Internal, |(_, _, code)| *code)
}

/// "ENOENT: open: No such file or directory".
pub fn message(error: &io::Error, what: &str) -> String {
    let Some(errno) = error.raw_os_error() else {
        return format!("{what}: {error}");
    };
    let name = find(errno).map_or_else(|| format!("E{errno}"), |(_, name, _)| (*name).to_owned());
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("{name}: {what}: {text}")
}

pub fn status(error: &io::Error, what: &str) -> Status {
    Status::new(error.raw_os_error().map_or(Code::Internal, code), message(error, what))
}

/// Turns the -1 of a system call into its errno.
pub fn check<T: PartialOrd + From<i8>>(result: T) -> io::Result<T> {
    if result < T::from(0) { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn find(errno: i32) -> Option<&'static (i32, &'static str, Code)> {
    TABLE.iter().find(|(number, _, _)| *number == errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_starts_with_the_name_of_the_errno() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(message(&error, "open"), "ENOENT: open: No such file or directory");
        assert_eq!(status(&error, "open").code(), Code::NotFound);
    }

    #[test]
    fn unknown_errno_is_internal() {
        assert_eq!(code(libc::EPROTO), Code::Internal);
    }
}
