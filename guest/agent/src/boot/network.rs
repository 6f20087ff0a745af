//! The guest's network, which leads to its agent and nowhere else: dummy0 with routes for every address, and the kernel's rules
//! that redirect what would leave by it. There is no network card. Set before any user process; root of the guest may change
//! all of it, and then nothing leaves.
//!
//! ```text
//! output, prerouting   TCP → listener of the agent     UDP and TCP to port 53 → its name server
//! output, forward      all else → refused at once
//! ```
//!
//! Loopback, the guest's own addresses, and networks inside the guest go by other interfaces and are left alone.

use std::fs;
use std::io;
use std::net::IpAddr;

use crate::netlink::{Attributes, Message, Socket, text};
use crate::outgoing::plan::{CONNECTIONS_PORT, DNS_PORT, OWN4, OWN6, PREFIX4, PREFIX6};

const DEVICE: &str = "dummy0";
const TABLE: &str = "space";
/// Nothing of its own makes the kernel send by it, or wake an idle guest.
const QUIET: [(&str, &str); 3] = [("accept_ra", "0"), ("addr_gen_mode", "1"), ("router_solicitations", "0")];

const ACK: i32 = libc::NLM_F_ACK;
const CREATE: i32 = libc::NLM_F_CREATE | ACK;

pub fn set_up() -> io::Result<()> {
    for (setting, value) in QUIET {
        fs::write(format!("/proc/sys/net/ipv6/conf/{DEVICE}/{setting}"), value)?;
    }
    // First, so that nothing finds a way without them.
    Socket::open(libc::NETLINK_NETFILTER)?.send(rules())?;
    let name = text(DEVICE);
    let index = unsafe { libc::if_nametoindex(name.as_ptr().cast()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    Socket::open(libc::NETLINK_ROUTE)?.send(links(index))
}

fn links(index: u32) -> Vec<Message> {
    const UP: u32 = libc::IFF_UP as u32;
    let interface = [&[0u8; 4][..], &index.to_ne_bytes(), &UP.to_ne_bytes(), &UP.to_ne_bytes()].concat();
    let mut messages = vec![Message::new(libc::RTM_NEWLINK, ACK, &interface)];
    for (own, prefix) in [(IpAddr::V4(OWN4), PREFIX4), (IpAddr::V6(OWN6), PREFIX6)] {
        let (family, address) = (family(own) as u8, octets(own));
        // Without the search for duplicates, which would keep it from being used for a while.
        const NO_DAD: u8 = libc::IFA_F_NODAD as u8;
        let header = [&[family, prefix, NO_DAD, 0][..], &index.to_ne_bytes()].concat();
        let added = Message::new(libc::RTM_NEWADDR, CREATE, &header)
            .with(libc::IFA_LOCAL, &address)
            .with(libc::IFA_ADDRESS, &address);
        messages.push(added);
        // rtmsg: family, lengths of destination and source, TOS, table, protocol, scope, type, flags
        let scope = if own.is_ipv4() { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let route = [family, 0, 0, 0, libc::RT_TABLE_MAIN, libc::RTPROT_BOOT, scope, libc::RTN_UNICAST, 0, 0, 0, 0];
        messages.push(Message::new(libc::RTM_NEWROUTE, CREATE, &route).with(libc::RTA_OIF, &index.to_ne_bytes()));
    }
    messages
}

fn family(address: IpAddr) -> i32 {
    if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

// <linux/netfilter/nfnetlink.h> and <linux/netfilter/nf_tables.h>; libc names some of them, under other types.
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const FAMILY_INET: u8 = 1;

const HOOK_PREROUTING: u32 = 0;
const HOOK_FORWARD: u32 = 2;
const HOOK_OUTPUT: u32 = 3;
const PRIORITY_NAT: i32 = -100;
/// It looks at packets as they were sent, before they are redirected.
const PRIORITY_REFUSE: i32 = -150;
const PRIORITY_FILTER: i32 = 0;

const REGISTER_VERDICT: u32 = 0;
const REGISTER_1: u32 = 1;
const REGISTER_2: u32 = 2;

const META_IN_NAME: u32 = 6;
const META_OUT_NAME: u32 = 7;
const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;

const ACCEPT: u32 = 1;
const DNS: u16 = 53;
const NAME_BYTES: usize = 16;

fn rules() -> Vec<Message> {
    let mut batch = vec![envelope(BATCH_BEGIN), table()];
    batch.push(chain("out", "nat", HOOK_OUTPUT, PRIORITY_NAT));
    batch.push(chain("nested", "nat", HOOK_PREROUTING, PRIORITY_NAT));
    batch.push(chain("refuse", "filter", HOOK_OUTPUT, PRIORITY_REFUSE));
    batch.push(chain("refuse-nested", "filter", HOOK_FORWARD, PRIORITY_FILTER));
    for own in [IpAddr::V4(OWN4), IpAddr::V6(OWN6)] {
        for (protocol, asked, port) in [
            (libc::IPPROTO_UDP, Some(DNS), DNS_PORT),
            (libc::IPPROTO_TCP, Some(DNS), DNS_PORT),
            (libc::IPPROTO_TCP, None, CONNECTIONS_PORT),
        ] {
            let redirect = |leaving: Rule| leaving.of_family(own).to(protocol, asked).redirect(own, port);
            batch.push(redirect(Rule::default().leaving()).message("out"));
            batch.push(redirect(Rule::default().would_leave()).message("nested"));
        }
    }
    for (protocol, asked) in [(libc::IPPROTO_TCP, None), (libc::IPPROTO_UDP, Some(DNS))] {
        batch.push(Rule::default().leaving().to(protocol, asked).accept().message("refuse"));
    }
    batch.push(Rule::default().leaving().reject().message("refuse"));
    batch.push(Rule::default().leaving().reject().message("refuse-nested"));
    batch.push(envelope(BATCH_END));
    batch
}

fn envelope(kind: u16) -> Message {
    let [high, low] = SUBSYSTEM.to_be_bytes();
    Message::new(kind, 0, &[libc::AF_UNSPEC as u8, 0, high, low])
}

fn inet(kind: u16, flags: i32) -> Message {
    Message::new(kind, flags, &[FAMILY_INET, 0, 0, 0])
}

fn table() -> Message {
    inet(NEW_TABLE, CREATE).with(1, &text(TABLE))
}

fn chain(name: &str, kind: &str, hook: u32, priority: i32) -> Message {
    let at = Attributes::default().with(1, &hook.to_be_bytes()).with(2, &priority.to_be_bytes());
    inet(NEW_CHAIN, CREATE).with(1, &text(TABLE)).with(3, &text(name)).nested(4, &at).with(7, &text(kind))
}

/// A rule, as the list of its expressions.
#[derive(Default)]
struct Rule(Attributes);

impl Rule {
    /// By dummy0.
    fn leaving(self) -> Self {
        self.meta(META_OUT_NAME).equals(&padded(DEVICE))
    }

    /// Sent from a network inside the guest, and about to be routed to dummy0.
    fn would_leave(self) -> Self {
        const BY_DESTINATION: u32 = 2;
        const OUT_NAME: u32 = 2;
        let lookup = Attributes::default()
            .with(1, &REGISTER_1.to_be_bytes())
            .with(2, &OUT_NAME.to_be_bytes())
            .with(3, &BY_DESTINATION.to_be_bytes());
        self.meta(META_IN_NAME).differs(&padded("lo")).expression("fib", &lookup).equals(&padded(DEVICE))
    }

    fn of_family(self, own: IpAddr) -> Self {
        self.meta(META_FAMILY).equals(&[family(own) as u8])
    }

    fn to(self, protocol: i32, port: Option<u16>) -> Self {
        let rule = self.meta(META_PROTOCOL).equals(&[protocol as u8]);
        let Some(port) = port else { return rule };
        const TRANSPORT_HEADER: u32 = 2;
        const DESTINATION_PORT_AT: u32 = 2;
        const PORT_BYTES: u32 = 2;
        let load = Attributes::default()
            .with(1, &REGISTER_1.to_be_bytes())
            .with(2, &TRANSPORT_HEADER.to_be_bytes())
            .with(3, &DESTINATION_PORT_AT.to_be_bytes())
            .with(4, &PORT_BYTES.to_be_bytes());
        rule.expression("payload", &load).equals(&port.to_be_bytes())
    }

    fn redirect(self, own: IpAddr, port: u16) -> Self {
        const DESTINATION: u32 = 1;
        let translate = Attributes::default()
            .with(1, &DESTINATION.to_be_bytes())
            .with(2, &(family(own) as u32).to_be_bytes())
            .with(3, &REGISTER_1.to_be_bytes())
            .with(5, &REGISTER_2.to_be_bytes());
        self.load(REGISTER_1, &octets(own)).load(REGISTER_2, &port.to_be_bytes()).expression("nat", &translate)
    }

    fn accept(self) -> Self {
        let code = Attributes::default().with(1, &ACCEPT.to_be_bytes());
        let verdict = Attributes::default().nested(2, &code);
        let set = Attributes::default().with(1, &REGISTER_VERDICT.to_be_bytes()).nested(2, &verdict);
        self.expression("immediate", &set)
    }

    /// The sender's call fails, and whoever sent through us gets an ICMP answer.
    fn reject(self) -> Self {
        const ICMPX: u32 = 2;
        const ADMINISTRATIVELY_PROHIBITED: u8 = 3;
        let how = Attributes::default().with(1, &ICMPX.to_be_bytes()).with(2, &[ADMINISTRATIVELY_PROHIBITED]);
        self.expression("reject", &how)
    }

    fn meta(self, key: u32) -> Self {
        let load = Attributes::default().with(1, &REGISTER_1.to_be_bytes()).with(2, &key.to_be_bytes());
        self.expression("meta", &load)
    }

    fn equals(self, value: &[u8]) -> Self {
        self.compare(0, value)
    }

    fn differs(self, value: &[u8]) -> Self {
        self.compare(1, value)
    }

    fn compare(self, operation: u32, value: &[u8]) -> Self {
        let compare = Attributes::default()
            .with(1, &REGISTER_1.to_be_bytes())
            .with(2, &operation.to_be_bytes())
            .nested(3, &Attributes::default().with(1, value));
        self.expression("cmp", &compare)
    }

    fn load(self, register: u32, value: &[u8]) -> Self {
        let set =
            Attributes::default().with(1, &register.to_be_bytes()).nested(2, &Attributes::default().with(1, value));
        self.expression("immediate", &set)
    }

    fn expression(self, name: &str, how: &Attributes) -> Self {
        Self(self.0.nested(1, &Attributes::default().with(1, &text(name)).nested(2, how)))
    }

    fn message(self, chain: &str) -> Message {
        let flags = CREATE | libc::NLM_F_APPEND;
        inet(NEW_RULE, flags).with(1, &text(TABLE)).with(2, &text(chain)).nested(4, &self.0)
    }
}

fn padded(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_BYTES, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

    use super::*;
    use crate::errno::check;
    use crate::outgoing::destination::original;

    /// The whole of it, in a network of its own on this machine; what a guest's root could do there harms nobody.
    fn in_a_network_of_its_own(work: impl FnOnce() + Send + 'static) {
        let run = move || {
            if check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).is_err() {
                eprintln!("SKIPPED: no right to make a network");
                return;
            }
            let up = (libc::IFF_UP as u32).to_ne_bytes();
            let loopback = [&[0u8; 4][..], &1u32.to_ne_bytes(), &up, &up].concat();
            // Not every kernel has dummies, and one of these is none of which more is seen than of a dummy.
            let kind = Attributes::default().with(libc::IFLA_INFO_KIND, b"ifb");
            let dummy = Message::new(libc::RTM_NEWLINK, CREATE, &[0; 16])
                .with(libc::IFLA_IFNAME, &text(DEVICE))
                .nested(libc::IFLA_LINKINFO, &kind);
            let mut routes = Socket::open(libc::NETLINK_ROUTE).unwrap();
            routes.send(vec![Message::new(libc::RTM_NEWLINK, ACK, &loopback), dummy]).unwrap();
            set_up().unwrap();
            work();
        };
        // The network is the thread's.
        std::thread::spawn(run).join().unwrap();
    }

    #[test]
    fn connections_and_questions_come_to_the_agent_and_nothing_else_leaves() {
        in_a_network_of_its_own(|| {
            for (own, elsewhere) in [(IpAddr::V4(OWN4), "192.0.2.7:443"), (IpAddr::V6(OWN6), "[2001:db8::7]:443")] {
                let elsewhere: SocketAddr = elsewhere.parse().unwrap();
                let connections = TcpListener::bind((own, CONNECTIONS_PORT)).unwrap();
                let program = TcpStream::connect(elsewhere).unwrap();
                let (accepted, _) = connections.accept().unwrap();
                assert_eq!(accepted.peer_addr().unwrap(), program.local_addr().unwrap());
                assert_eq!(original(&accepted, accepted.local_addr().unwrap()).unwrap(), Some(elsewhere));
                let direct = TcpStream::connect((own, CONNECTIONS_PORT)).unwrap();
                let (accepted, _) = connections.accept().unwrap();
                assert_eq!(original(&accepted, accepted.local_addr().unwrap()).unwrap(), None);
                drop(direct);

                let questions = UdpSocket::bind((own, DNS_PORT)).unwrap();
                let asking = UdpSocket::bind((if own.is_ipv4() { "0.0.0.0" } else { "::" }, 0)).unwrap();
                asking.connect((elsewhere.ip(), DNS)).unwrap();
                asking.send(b"question").unwrap();
                let (length, from) = questions.recv_from(&mut [0; 16]).unwrap();
                questions.send_to(&[7; 3], from).unwrap();
                assert_eq!((length, asking.recv(&mut [0; 16]).unwrap()), (8, 3));

                let other = UdpSocket::bind((if own.is_ipv4() { "0.0.0.0" } else { "::" }, 0)).unwrap();
                assert_eq!(other.send_to(b"x", elsewhere).unwrap_err().raw_os_error(), Some(libc::EPERM));
            }
            let local = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
            TcpStream::connect(local.local_addr().unwrap()).unwrap();
            assert_eq!(local.accept().unwrap().0.local_addr().unwrap(), local.local_addr().unwrap());
        });
    }
}
