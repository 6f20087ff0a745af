//! The addresses and ports that the way out is made of. The kernel's rules (`boot/network.rs`) and the listeners agree by them.
//!
//! ```text
//! 198.18.0.1   fd53:7061:6365::1     the guest itself, on dummy0
//! 198.18.0.2                         the name server: nobody's, so that what is sent there is redirected
//! 198.18.0.16  fd53:7061:6365::10 …  names, one address of each kind
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Set aside for tests of networks (RFC 2544): on no network that is in use.
const NETWORK4: u32 = u32::from_be_bytes([198, 18, 0, 0]);
pub const PREFIX4: u8 = 15;
const NETWORK6: u128 = 0xfd53_7061_6365 << 80;
pub const PREFIX6: u8 = 64;

pub const OWN4: Ipv4Addr = Ipv4Addr::from_bits(NETWORK4 + 1);
pub const OWN6: Ipv6Addr = Ipv6Addr::from_bits(NETWORK6 + 1);

/// Redirected to, so they are free as far as programs can tell, but on dummy0.
pub const CONNECTIONS_PORT: u16 = 64_001;
pub const DNS_PORT: u16 = 64_002;

/// Which of the addresses may be names.
pub const FIRST_NAME: u32 = 16;
pub const LAST_NAME: u32 = (1 << (32 - PREFIX4)) - 2;

/// Where names lie. Tests have another place: there, nothing is redirected.
#[derive(Clone, Copy)]
pub struct Range {
    network4: u32,
}

impl Range {
    pub const GUEST: Self = Self { network4: NETWORK4 };
    /// All of it is the machine's own loopback.
    pub const LOOPBACK: Self = Self { network4: u32::from_be_bytes([127, 18, 0, 0]) };

    pub fn v4(self, index: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network4 + index)
    }

    pub fn v6(self, index: u32) -> Ipv6Addr {
        Ipv6Addr::from_bits(NETWORK6 + u128::from(index))
    }

    /// None: the address lies elsewhere. What lies within stands for a name, or for nothing.
    pub fn index(self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => {
                let offset = address.to_bits() ^ self.network4;
                (offset >> (32 - PREFIX4) == 0).then_some(offset)
            }
            IpAddr::V6(address) => {
                let offset = address.to_bits() ^ NETWORK6;
                (offset >> (128 - PREFIX6) == 0).then(|| u32::try_from(offset).unwrap_or(u32::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_name_leads_back_to_its_index() {
        for index in [0, FIRST_NAME, 70_000, LAST_NAME] {
            assert_eq!(Range::GUEST.index(Range::GUEST.v4(index).into()), Some(index));
            assert_eq!(Range::GUEST.index(Range::GUEST.v6(index).into()), Some(index));
        }
        assert_eq!(Range::GUEST.v4(LAST_NAME), Ipv4Addr::new(198, 19, 255, 254));
        for elsewhere in ["198.17.255.255", "198.20.0.0", "1.1.1.1", "fd53:7061:6365:1::10", "::1"] {
            assert_eq!(Range::GUEST.index(elsewhere.parse().unwrap()), None, "{elsewhere}");
        }
        assert_eq!(Range::GUEST.index("fd53:7061:6365::ffff:ffff:ffff".parse().unwrap()), Some(u32::MAX));
    }
}
