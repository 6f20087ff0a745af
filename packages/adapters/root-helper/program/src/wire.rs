//! Bytes and descriptors over unix sockets, and the answers: one line of JSON each. Requests are plain words, so that
//! nothing of a format has to be parsed.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Instant;

use crate::failure::{About, Failure, Result, check};

/// No verb takes more; the kernel closes what does not fit.
const MAX_DESCRIPTORS: usize = 1;
const MAX_SENT: usize = 2;

const fn control_bytes(descriptors: usize) -> usize {
    unsafe { libc::CMSG_SPACE((descriptors * size_of::<libc::c_int>()) as u32) as usize }
}

/// Aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control<const SIZE: usize>([u8; SIZE]);

pub struct Received {
    pub bytes: usize,
    pub descriptors: Vec<OwnedFd>,
}

/// Waits for bytes; none means that the other side has ended.
pub fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = Control([0; control_bytes(MAX_DESCRIPTORS)]);
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
    if bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut descriptors = vec![];
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&message) };
    while !header.is_null() {
        let found = unsafe { &*header };
        if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            let count = (found.cmsg_len - unsafe { libc::CMSG_LEN(0) as usize }) / size_of::<libc::c_int>();
            let first: *const libc::c_int = unsafe { libc::CMSG_DATA(header) }.cast();
            for index in 0..count {
                let number = unsafe { ptr::read_unaligned(first.add(index)) };
                descriptors.push(unsafe { OwnedFd::from_raw_fd(number) });
            }
        }
        header = unsafe { libc::CMSG_NXTHDR(&message, header) };
    }
    Ok(Received { bytes: bytes as usize, descriptors })
}

/// Sends bytes and, with the first of them, files.
pub fn send_files<const COUNT: usize>(socket: &OwnedFd, bytes: &[u8], files: &[std::fs::File; COUNT]) -> Result<()> {
    const { assert!(COUNT <= MAX_SENT) };
    let mut control = Control([0; control_bytes(MAX_SENT)]);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control_bytes(COUNT);
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN((COUNT * size_of::<libc::c_int>()) as u32) as usize;
        let first: *mut libc::c_int = libc::CMSG_DATA(header).cast();
        for (index, file) in files.iter().enumerate() {
            ptr::write_unaligned(first.add(index), file.as_raw_fd());
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let sent = check("sending files", unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) } as libc::c_long)?;
    if sent as usize == bytes.len() { Ok(()) } else { Err(Failure::unavailable("the files were not sent")) }
}

/// False when nothing came until then.
pub fn readable_by(fd: &impl AsRawFd, deadline: Instant) -> Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
    let mut ready = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let count = unsafe { libc::poll(&mut ready, 1, i32::try_from(left).unwrap_or(i32::MAX)) };
    if count < 0 { Err(io::Error::last_os_error()).about("poll") } else { Ok(count > 0) }
}

/// A JSON string.
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' => out.push_str(&format!("\\u{:04x}", letter as u32)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A JSON array of strings.
pub fn quoted_list<T: AsRef<str>>(texts: &[T]) -> String {
    let items: Vec<_> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", items.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_one_line_of_json() {
        assert_eq!(quoted("a \"b\"\\\n\u{1}é"), r#""a \"b\"\\\u000a\u0001é""#);
        assert_eq!(quoted_list(&["a", "b"]), r#"["a","b"]"#);
    }
}
