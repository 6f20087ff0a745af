//! Why a verb was not done, as the node is told: one of the codes of the platform's error catalogue, and a sentence.

use std::fmt::Display;
use std::io;

pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub struct Failure {
    pub code: &'static str,
    pub detail: String,
}

impl Failure {
    pub fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// What was asked for is not one of the things that can be asked for.
    pub fn refused(detail: impl Into<String>) -> Self {
        Self::new("bad_request", detail)
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new("unavailable", detail)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let code = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => "insufficient_space",
            Some(libc::ENOMEM) => "insufficient_memory",
            _ => "internal",
        };
        Self::new(code, error.to_string())
    }
}

/// Says what an error is about.
pub trait About<T> {
    fn about(self, what: impl Display) -> Result<T>;
}

impl<T> About<T> for io::Result<T> {
    fn about(self, what: impl Display) -> Result<T> {
        self.map_err(|error| {
            let failure = Failure::from(error);
            Failure::new(failure.code, format!("{what}: {}", failure.detail))
        })
    }
}

/// The result of a system call, which is negative when it failed.
pub fn check(what: impl Display, result: libc::c_long) -> Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()).about(what) } else { Ok(result) }
}
