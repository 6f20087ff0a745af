//! AES-256-XTS over sectors of 4 KiB, as dm-crypt does it for `aes-xts-plain64`: the tweak of a sector is its place in units of
//! 512 bytes, from the beginning of the data on.

use std::io;

use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;

use crate::memory::Key;

pub const SECTOR_BYTES: usize = 4096;
const TWEAK_UNIT: u64 = 512;

/// The key's schedules, for one thread at a time. OpenSSL overwrites them when they are dropped.
pub struct Sectors {
    encryption: CipherCtx,
    decryption: CipherCtx,
}

impl Sectors {
    pub fn new(key: &Key) -> io::Result<Self> {
        let (mut encryption, mut decryption) = (CipherCtx::new()?, CipherCtx::new()?);
        encryption.encrypt_init(Some(Cipher::aes_256_xts()), Some(key.bytes()), None)?;
        decryption.decrypt_init(Some(Cipher::aes_256_xts()), Some(key.bytes()), None)?;
        Ok(Self { encryption, decryption })
    }

    /// From `plain` to `sealed`, which are as long as each other: whole sectors, the first of which lies at `position`.
    pub fn seal(&mut self, position: u64, plain: &[u8], sealed: &mut [u8]) -> Result<(), ErrorStack> {
        let sectors = plain.chunks_exact(SECTOR_BYTES).zip(sealed.chunks_exact_mut(SECTOR_BYTES));
        for (index, (from, to)) in sectors.enumerate() {
            self.encryption.encrypt_init(None, None, Some(&tweak(position, index)))?;
            self.encryption.cipher_update(from, Some(to))?;
        }
        Ok(())
    }

    /// In place. A sector that is a hole in the container reads as zeros: no sealed one has nothing but zeros.
    pub fn open(&mut self, position: u64, bytes: &mut [u8]) -> Result<(), ErrorStack> {
        for (index, sector) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            if is_hole(sector) {
                continue;
            }
            self.decryption.decrypt_init(None, None, Some(&tweak(position, index)))?;
            self.decryption.cipher_update_inplace(sector, SECTOR_BYTES)?;
        }
        Ok(())
    }
}

fn tweak(position: u64, index: usize) -> [u8; 16] {
    let mut out = [0; 16];
    let place = (position + (index * SECTOR_BYTES) as u64) / TWEAK_UNIT;
    out[..8].copy_from_slice(&place.to_le_bytes());
    out
}

fn is_hole(sector: &[u8]) -> bool {
    sector[..16] == [0; 16] && sector.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::KEY_BYTES;
    use std::io::Write;
    use std::os::fd::{FromRawFd, OwnedFd};

    fn sectors() -> Sectors {
        let mut ends = [0; 2];
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [read, write] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let bytes: Vec<u8> = (0..KEY_BYTES as u8).collect();
        std::fs::File::from(write).write_all(&bytes).unwrap();
        Sectors::new(&Key::read(read).unwrap()).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_at_its_place_only() {
        let mut sectors = sectors();
        let plain: Vec<u8> = (0..3 * SECTOR_BYTES).map(|index| index as u8).collect();
        let mut sealed = vec![0; plain.len()];
        sectors.seal(8192, &plain, &mut sealed).unwrap();
        let mut opened = sealed.clone();
        sectors.open(8192, &mut opened).unwrap();
        assert_eq!(opened, plain);
        let mut elsewhere = sealed.clone();
        sectors.open(4096, &mut elsewhere).unwrap();
        assert!(elsewhere[..SECTOR_BYTES] != plain[..SECTOR_BYTES]);
        // One by one it is the same as at once.
        let mut second = sealed[SECTOR_BYTES..2 * SECTOR_BYTES].to_vec();
        sectors.open(8192 + SECTOR_BYTES as u64, &mut second).unwrap();
        assert_eq!(second, plain[SECTOR_BYTES..2 * SECTOR_BYTES]);
    }

    #[test]
    fn the_tweak_counts_512_bytes() {
        assert_eq!(tweak(0, 0), [0; 16]);
        assert_eq!(tweak(0, 1)[..2], [8, 0]);
        assert_eq!(tweak(2 * 1024 * 1024, 1)[..2], [8, 16]);
    }

    #[test]
    fn a_hole_reads_as_zeros() {
        let mut bytes = vec![0; 2 * SECTOR_BYTES];
        bytes[2 * SECTOR_BYTES - 1] = 1;
        sectors().open(0, &mut bytes).unwrap();
        assert!(is_hole(&bytes[..SECTOR_BYTES]) && !is_hole(&bytes[SECTOR_BYTES..]));
    }
}
