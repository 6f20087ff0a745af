//! What can be named. A name becomes part of a path, so it is accepted only in the form in which the platform makes it:
//! none has a slash, a dot or a byte that is not printable ASCII.

use crate::failure::{Failure, Result};

const ID_LETTERS: usize = 16;
/// Crockford's base 32, lower case.
const ALPHABET: &[u8] = b"0123456789abcdefghjkmnpqrstvwxyz";
const BUILD_LETTERS: usize = 32;
const LONGEST_VAULT: usize = 63;

/// `lif_` and 16 letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeId(String);

/// `snp_` and 16 letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotId(String);

/// The name of a run folder: a life's id, or `spare-<owner's pid>-<its start time>-<number>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunName(String);

/// What a build of the VMM is called: the beginning of its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildName(String);

/// The name of a vault, or of another place that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceName(String);

impl LifeId {
    pub fn parse(text: &str) -> Result<Self> {
        if is_id(text, "lif_") { Ok(Self(text.into())) } else { Err(Failure::refused("that is not the id of a life")) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SnapshotId {
    pub fn parse(text: &str) -> Result<Self> {
        if is_id(text, "snp_") {
            Ok(Self(text.into()))
        } else {
            Err(Failure::refused("that is not the id of a snapshot"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_id(text: &str, prefix: &str) -> bool {
    let letters = text.strip_prefix(prefix).unwrap_or_default().as_bytes();
    letters.len() == ID_LETTERS && letters.iter().all(|letter| ALPHABET.contains(letter))
}

impl RunName {
    pub fn parse(text: &str) -> Result<Self> {
        if LifeId::parse(text).is_ok() || is_spare(text) {
            return Ok(Self(text.into()));
        }
        Err(Failure::refused("that is not the name of a run folder"))
    }

    pub fn of(life: &LifeId) -> Self {
        Self(life.0.clone())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_spare(text: &str) -> bool {
    let parts: Vec<_> = text.strip_prefix("spare-").unwrap_or_default().split('-').collect();
    parts.len() == 3 && parts.iter().all(|part| number::<u64>(part).is_ok())
}

impl PlaceName {
    pub fn parse(text: &str) -> Result<Self> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=LONGEST_VAULT).contains(&text.len()) && text.bytes().all(plain) {
            return Ok(Self(text.into()));
        }
        Err(Failure::refused("that is not the name of a vault"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl BuildName {
    pub fn parse(text: &str) -> Result<Self> {
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == BUILD_LETTERS && text.bytes().all(hexadecimal) {
            return Ok(Self(text.into()));
        }
        Err(Failure::refused("that is not the name of a VMM build"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Digits only: `parse` alone would take a sign.
pub fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = if digits { text.parse().ok() } else { None };
    value.ok_or_else(|| Failure::refused("that is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[&str] = &[
        "",
        ".",
        "..",
        "../..",
        "/",
        "/etc/passwd",
        "lif_",
        "lif_../../../../../..",
        "lif_0000000000000000/",
        "lif_000000000000000",
        "lif_00000000000000000",
        "lif_000000000000000O",
        "LIF_0000000000000000",
        "snp_0000000000000000",
        "lif_0000000000000000\0",
        "spare",
        "spare-1-2",
        "spare-1-2-3-4",
        "spare-1-2-",
        "spare--1-2-3",
        "spare-1-2-../x",
        "spare-+1-2-3",
        "spare-1-2-99999999999999999999999",
    ];

    #[test]
    fn takes_the_names_that_the_platform_makes() {
        for name in ["lif_0123456789abcdef", "spare-1-2-3", "spare-4194304-18446744073709551615-0"] {
            assert_eq!(RunName::parse(name).unwrap().as_str(), name);
        }
        assert!(PlaceName::parse("default").is_ok());
        assert_eq!(SnapshotId::parse("snp_0123456789abcdef").unwrap().as_str(), "snp_0123456789abcdef");
        assert!(BuildName::parse(&"0f".repeat(16)).is_ok());
    }

    #[test]
    fn refuses_every_other() {
        for name in HOSTILE {
            assert!(RunName::parse(name).is_err(), "{name:?}");
            assert!(LifeId::parse(name).is_err(), "{name:?}");
        }
        for name in ["", "..", "snp_", "lif_0000000000000000", "snp_000000000000000O", "snp_0000000000000000/.."] {
            assert!(SnapshotId::parse(name).is_err(), "{name:?}");
        }
        for name in ["", ".", "..", "a/b", "A", "a b", "a\n", &"a".repeat(64)] {
            assert!(PlaceName::parse(name).is_err(), "{name:?}");
        }
        for name in ["", "../..", &"0F".repeat(16), &"0f".repeat(15), &"0f".repeat(17), &"/a".repeat(16)] {
            assert!(BuildName::parse(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_number_is_digits() {
        assert_eq!(number::<u32>("512").unwrap(), 512);
        for text in ["", "-1", "+1", "1.0", "0x1", " 1", "4294967296"] {
            assert!(number::<u32>(text).is_err(), "{text:?}");
        }
    }
}
