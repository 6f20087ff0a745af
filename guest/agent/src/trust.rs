//! The certificates that programs trust beside those of the image: the gateway's. They are put where Debian's tools look, and
//! named in the environment of each command for those that look elsewhere. All of it is the guest's own: what cannot be
//! written is left, and a program then refuses what it does not trust, as it should.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::identity::{put_file, read_or_empty};
use crate::log;
use crate::users::ends_with;

pub const MAX_BYTES: usize = 64 << 10;
const BUNDLE_MAX_BYTES: u64 = 4 << 20;
/// From here `update-ca-certificates` makes the bundle anew.
const OWN: &str = "/usr/local/share/ca-certificates/space.crt";
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Some take a bundle in the place of their own, some one more certificate.
const VARIABLES: &[(&str, &str)] = &[
    ("AWS_CA_BUNDLE", BUNDLE),
    ("CARGO_HTTP_CAINFO", BUNDLE),
    ("CURL_CA_BUNDLE", BUNDLE),
    ("DENO_CERT", OWN),
    ("GIT_SSL_CAINFO", BUNDLE),
    ("NODE_EXTRA_CA_CERTS", OWN),
    ("PIP_CERT", BUNDLE),
    ("REQUESTS_CA_BUNDLE", BUNDLE),
    ("SSL_CERT_FILE", BUNDLE),
];

/// Whether the files hold what the host gave last.
static IN_PLACE: AtomicBool = AtomicBool::new(false);

/// What the environment of a command says of them; nothing, where they could not be put.
pub fn variables() -> &'static [(&'static str, &'static str)] {
    if IN_PLACE.load(Ordering::Relaxed) { VARIABLES } else { &[] }
}

/// PEM, or nothing at all.
pub fn is_valid(pem: &[u8]) -> bool {
    let is_text = |byte: &u8| matches!(byte, b'\n' | b' '..=b'~');
    pem.len() <= MAX_BYTES
        && pem.iter().all(is_text)
        && (pem.is_empty() || pem.starts_with(b"-----BEGIN CERTIFICATE-----\n") && pem.ends_with(b"-----\n"))
}

pub fn keep(pem: &[u8]) {
    let kept = keep_at(pem, OWN, BUNDLE).inspect_err(|error| log::error(&format!("certificates: {error}")));
    IN_PLACE.store(kept.is_ok() && !pem.is_empty(), Ordering::Relaxed);
}

/// Files that are right are not written: a resume changes none.
fn keep_at(pem: &[u8], own: &str, bundle: &str) -> io::Result<()> {
    let before = read_or_empty(Path::new(own), BUNDLE_MAX_BYTES);
    // After most restores: then the bundle, which is large, is not read through.
    if before == pem && ends_with(Path::new(bundle), pem) {
        return Ok(());
    }
    let all = read_or_empty(Path::new(bundle), BUNDLE_MAX_BYTES);
    let wanted = bundle_with(&all, &before, pem);
    if wanted != all {
        put_file(bundle, &wanted)?;
    }
    // Last: it says what is to be taken out of the bundle the next time.
    if before != pem { put_file(own, pem) } else { Ok(()) }
}

/// The bundle with the certificates at its end, and without those that were given before.
fn bundle_with(bundle: &[u8], before: &[u8], pem: &[u8]) -> Vec<u8> {
    if bundle.ends_with(pem) && (before == pem || before.is_empty()) {
        return bundle.to_vec();
    }
    let mut rest = bundle.to_vec();
    for old in [before, pem].into_iter().filter(|old| !old.is_empty()) {
        while let Some(at) = rest.windows(old.len()).position(|part| part == old) {
            rest.drain(at..at + old.len());
        }
    }
    if !pem.is_empty() && rest.last().is_some_and(|last| *last != b'\n') {
        rest.push(b'\n');
    }
    rest.extend_from_slice(pem);
    rest
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ONE: &[u8] = b"-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n";
    const TWO: &[u8] = b"-----BEGIN CERTIFICATE-----\nMg==\n-----END CERTIFICATE-----\n";

    #[test]
    fn only_certificates_are_taken() {
        assert!(is_valid(b"") && is_valid(ONE) && is_valid(&[ONE, TWO].concat()));
        assert!(!is_valid(b"-----BEGIN PRIVATE KEY-----\n-----\n"));
        assert!(!is_valid(&[ONE, b"\0-----\n"].concat()));
        assert!(!is_valid(&ONE.repeat(MAX_BYTES / ONE.len() + 1)));
    }

    #[test]
    fn the_bundle_ends_with_what_was_given_last_and_keeps_the_images_own() {
        let image = b"# the image's\nAAAA\n".to_vec();
        let first = bundle_with(&image, b"", ONE);
        assert_eq!(first, [&image, ONE].concat());
        assert_eq!(bundle_with(&first, ONE, ONE), first);
        let second = bundle_with(&first, ONE, TWO);
        assert_eq!(second, [&image, TWO].concat());
        assert_eq!(bundle_with(&second, TWO, b""), image);
        // Made anew by the guest from all that it trusts, in another order.
        let anew = [ONE, &image[..]].concat();
        assert_eq!(bundle_with(&anew, ONE, TWO), [&image, TWO].concat());
        assert_eq!(bundle_with(b"cut", b"", ONE), [b"cut\n", ONE].concat());
        assert_eq!(bundle_with(b"", b"", ONE), ONE);
    }

    #[test]
    fn files_are_written_once_and_a_place_that_cannot_be_had_is_told() {
        let directory = std::env::temp_dir().join(format!("space-agent-trust-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let place = |name: &str| directory.join(name).to_str().unwrap().to_owned();
        let (own, bundle) = (place("own/space.crt"), place("bundle.crt"));
        fs::write(&bundle, "image\n").unwrap();
        keep_at(ONE, &own, &bundle).unwrap();
        assert_eq!(fs::read(&own).unwrap(), ONE);
        let written = fs::metadata(&bundle).unwrap().modified().unwrap();
        keep_at(ONE, &own, &bundle).unwrap();
        assert_eq!(fs::metadata(&bundle).unwrap().modified().unwrap(), written);
        assert!(keep_at(ONE, &own, &place("bundle.crt/below")).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
