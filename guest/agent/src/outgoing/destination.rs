//! Where a connection was going before the kernel redirected it.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use crate::errno::check;

/// <linux/netfilter_ipv4.h>, and the same number for IPv6.
const SO_ORIGINAL_DST: i32 = 80;

/// `own`: the address that it was accepted at. None: it was not redirected, but made to the listener itself, which leads nowhere.
pub fn original(socket: &impl AsRawFd, own: SocketAddr) -> io::Result<Option<SocketAddr>> {
    let asked = match own {
        SocketAddr::V4(_) => {
            let found: libc::sockaddr_in = option(socket, libc::SOL_IP)?;
            let address = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
            SocketAddr::new(address.into(), u16::from_be(found.sin_port))
        }
        SocketAddr::V6(_) => {
            let found: libc::sockaddr_in6 = option(socket, libc::SOL_IPV6)?;
            let address = Ipv6Addr::from(found.sin6_addr.s6_addr);
            SocketAddr::new(IpAddr::V6(address), u16::from_be(found.sin6_port))
        }
    };
    Ok(Some(asked).filter(|asked| (asked.ip(), asked.port()) != (own.ip(), own.port())))
}

fn option<T>(socket: &impl AsRawFd, level: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    let place = value.as_mut_ptr().cast();
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, SO_ORIGINAL_DST, place, &mut length) })?;
    // SAFETY: both are structs of integers, for which every pattern is a value, and zeroed before.
    Ok(unsafe { value.assume_init() })
}
