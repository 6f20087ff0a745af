//! Netlink, as much of it as a boot needs: messages with attributes, sent, and each acknowledged by the kernel.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::errno::check;

const ALIGN: usize = 4;
const NESTED: u16 = 1 << 15;
const HEADER_BYTES: usize = 16;
const ERROR: u16 = 2;
/// The kernel answers at once; it is asked before anything else runs.
const ANSWER_LIMIT: libc::timeval = libc::timeval { tv_sec: 5, tv_usec: 0 };

/// One message: a header, a struct of its family, attributes.
pub struct Message(Vec<u8>);

impl Message {
    /// `body` is the family's own header.
    pub fn new(kind: u16, flags: i32, body: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        bytes.extend_from_slice(body);
        Self(bytes).padded()
    }

    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        put(&mut self.0, kind, value);
        self
    }

    pub fn nested(mut self, kind: u16, inner: &Attributes) -> Self {
        put(&mut self.0, kind | NESTED, &inner.0);
        self
    }

    fn padded(mut self) -> Self {
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
        self
    }

    fn finished(mut self, sequence: u32) -> Vec<u8> {
        let length = (self.0.len() as u32).to_ne_bytes();
        self.0[0..4].copy_from_slice(&length);
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// What is nested in an attribute.
#[derive(Default)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        put(&mut self.0, kind, value);
        self
    }

    pub fn nested(mut self, kind: u16, inner: &Attributes) -> Self {
        put(&mut self.0, kind | NESTED, &inner.0);
        self
    }
}

/// A string as the kernel takes it.
pub fn text(value: &str) -> Vec<u8> {
    [value.as_bytes(), &[0]].concat()
}

fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend_from_slice(&((ALIGN + value.len()) as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
}

pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

impl Socket {
    pub fn open(protocol: i32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_NETLINK, kind, protocol))?) };
        let limit = ANSWER_LIMIT;
        let value = (&raw const limit).cast();
        let length = size_of::<libc::timeval>() as libc::socklen_t;
        check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, length) })?;
        Ok(Self { fd, sequence: 0 })
    }

    /// Sends all in one piece, and returns when each that asked for it was acknowledged. The first error ends it.
    pub fn send(&mut self, messages: Vec<Message>) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut awaited = 0;
        for message in messages {
            let flags = u16::from_ne_bytes([message.0[6], message.0[7]]);
            awaited += u32::from(i32::from(flags) & libc::NLM_F_ACK != 0);
            self.sequence += 1;
            bytes.extend(message.finished(self.sequence));
        }
        check(unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) })?;
        while awaited > 0 {
            awaited -= self.receive()?.min(awaited);
        }
        Ok(())
    }

    /// How many acknowledgements have come.
    fn receive(&self) -> io::Result<u32> {
        let mut buffer = vec![0u8; 16 << 10];
        let length =
            check(unsafe { libc::recv(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) })? as usize;
        let (mut rest, mut count) = (&buffer[..length], 0);
        while let Some(header) = rest.first_chunk::<{ HEADER_BYTES + 4 }>() {
            let [a, b, c, d, kind_low, kind_high, ..] = *header;
            if u16::from_ne_bytes([kind_low, kind_high]) == ERROR {
                let [.., e, f, g, h] = *header;
                match i32::from_ne_bytes([e, f, g, h]) {
                    0 => count += 1,
                    errno => return Err(io::Error::from_raw_os_error(-errno)),
                }
            }
            let size = (u32::from_ne_bytes([a, b, c, d]) as usize).next_multiple_of(ALIGN).max(HEADER_BYTES);
            rest = rest.get(size..).unwrap_or_default();
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_their_lengths_are_not() {
        let inner = Attributes::default().with(1, b"abc");
        let bytes = Message::new(9, libc::NLM_F_ACK, &[1, 2]).nested(2, &inner).finished(7);
        assert_eq!(bytes.len(), 16 + 4 + 4 + 8);
        assert_eq!(bytes[0..4], 32u32.to_ne_bytes());
        assert_eq!(bytes[8..12], 7u32.to_ne_bytes());
        assert_eq!(bytes[20..22], 12u16.to_ne_bytes());
        assert_eq!(bytes[22..24], (2 | NESTED).to_ne_bytes());
        assert_eq!(bytes[24..26], 7u16.to_ne_bytes());
        assert_eq!(&bytes[28..32], b"abc\0");
    }
}
