//! Connections out of the guest. Here nothing redirects them: they are made to the agent's own port, at the address that stands
//! for a name or at another of the loopback, and names are asked for at the agent's name server.

use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::host::contract::{
    AcceptRequest, Accepted, DialReply, DialRequest, End, dial_reply, dial_request::Part as Request,
};
use crate::host::{Agent, Host};
use crate::machine::identity;

const LIMIT: Duration = Duration::from_secs(20);
const MAX_OUTGOING: usize = 256;

struct Guest {
    agent: Agent,
    port: u16,
    dns: u16,
}

impl Guest {
    async fn start() -> Self {
        let [port, dns] = free_ports();
        Self { agent: Agent::start_with_way_out(port, dns).await, port, dns }
    }

    /// A program that connects to an address without looking anything up.
    async fn connect(&self, address: Ipv4Addr) -> TcpStream {
        timeout(LIMIT, TcpStream::connect((address, self.port))).await.unwrap().unwrap()
    }

    async fn look_up(&self, name: &str) -> Ipv4Addr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(&question(name), SocketAddr::from((Ipv4Addr::LOCALHOST, self.dns))).await.unwrap();
        let mut answer = [0; 512];
        let length = timeout(LIMIT, socket.recv(&mut answer)).await.unwrap().unwrap();
        answer[..length].last_chunk::<4>().copied().unwrap().into()
    }
}

fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| StdListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn question(name: &str) -> Vec<u8> {
    let mut bytes = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.extend_from_slice(&[0, 0, 1, 0, 1]);
    bytes
}

async fn accept(host: &mut Host) -> Streaming<Accepted> {
    host.tunnels.accept(AcceptRequest {}).await.unwrap().into_inner()
}

async fn next(told: &mut Streaming<Accepted>) -> Accepted {
    timeout(LIMIT, told.message()).await.expect("nothing was told of").unwrap().unwrap()
}

struct Carried {
    requests: mpsc::Sender<DialRequest>,
    replies: Streaming<DialReply>,
}

impl Carried {
    async fn start(host: &mut Host, connection: u64) -> Result<Self, Status> {
        let (requests, queue) = mpsc::channel(1);
        requests.send(DialRequest { part: Some(Request::Connection(connection)) }).await.unwrap();
        let mut replies = host.tunnels.carry(ReceiverStream::new(queue)).await?.into_inner();
        let first = replies.message().await?.unwrap().part.unwrap();
        assert!(matches!(first, dial_reply::Part::Connected(_)));
        Ok(Self { requests, replies })
    }

    async fn send(&self, part: Request) {
        self.requests.send(DialRequest { part: Some(part) }).await.unwrap();
    }

    async fn read(&mut self) -> Result<Option<Vec<u8>>, Status> {
        match self.replies.message().await?.expect("cut without a status").part.unwrap() {
            dial_reply::Part::Data(data) => Ok(Some(data.to_vec())),
            _ => Ok(None),
        }
    }
}

async fn is_reset(mut program: TcpStream) -> bool {
    let read = timeout(LIMIT, program.read(&mut [0; 16])).await.expect("it hangs");
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

#[tokio::test]
async fn a_connection_is_told_of_by_the_name_that_was_looked_up_and_carried() {
    let guest = Guest::start().await;
    let mut host = guest.agent.open_traffic().await;
    let mut told = accept(&mut host).await;
    let address = guest.look_up("API.Example.com").await;
    assert_eq!(guest.look_up("api.example.com").await, address);
    let mut program = guest.connect(address).await;
    let accepted = next(&mut told).await;
    assert_eq!((accepted.host.as_str(), accepted.port), ("api.example.com", u32::from(guest.port)));
    let mut carried = Carried::start(&mut host, accepted.connection).await.unwrap();
    program.write_all(b"question").await.unwrap();
    assert_eq!(carried.read().await.unwrap().unwrap(), b"question");
    program.shutdown().await.unwrap();
    assert_eq!(carried.read().await.unwrap(), None);
    carried.send(Request::Data(b"answer"[..].into())).await;
    carried.send(Request::End(End {})).await;
    let mut answer = Vec::new();
    program.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
    assert_eq!(Carried::start(&mut host, accepted.connection).await.err().unwrap().code(), Code::NotFound);
}

#[tokio::test]
async fn a_literal_stays_one_and_an_address_that_stands_for_nothing_is_reset() {
    let guest = Guest::start().await;
    let mut host = guest.agent.open_traffic().await;
    let mut told = accept(&mut host).await;
    assert!(is_reset(guest.connect(Ipv4Addr::new(127, 18, 99, 99)).await).await);
    let _program = guest.connect(Ipv4Addr::new(127, 0, 9, 1)).await;
    assert_eq!(next(&mut told).await.host, "127.0.9.1");
}

#[tokio::test]
async fn what_nobody_accepts_waits_and_what_is_not_carried_is_reset_when_the_host_leaves() {
    let guest = Guest::start().await;
    let waiting = guest.connect(Ipv4Addr::new(127, 0, 9, 2)).await;
    let mut host = guest.agent.open_traffic().await;
    let mut first = accept(&mut host).await;
    assert_eq!(next(&mut first).await.host, "127.0.9.2");
    // The next takes its place.
    let mut second = accept(&mut host).await;
    assert!(is_reset(waiting).await);
    assert!(first.message().await.unwrap().is_none());
    let waiting = guest.connect(Ipv4Addr::new(127, 0, 9, 3)).await;
    assert_eq!(next(&mut second).await.host, "127.0.9.3");
    drop(second);
    assert!(is_reset(waiting).await);
}

#[tokio::test]
async fn a_new_identity_resets_all_that_was_opened_before_and_the_next_one_works() {
    let guest = Guest::start().await;
    let unaccepted = guest.connect(Ipv4Addr::new(127, 0, 9, 4)).await;
    let mut host = guest.agent.open_traffic().await;
    host.machine.assume_identity(identity()).await.unwrap();
    assert!(is_reset(unaccepted).await);
    let mut told = accept(&mut host).await;
    let (carried, announced) =
        (guest.connect(Ipv4Addr::new(127, 0, 9, 5)).await, guest.connect(Ipv4Addr::new(127, 0, 9, 6)).await);
    let connection = next(&mut told).await.connection;
    let mut tunnel = Carried::start(&mut host, connection).await.unwrap();
    next(&mut told).await;
    host.machine.assume_identity(identity()).await.unwrap();
    assert!(is_reset(carried).await && is_reset(announced).await);
    // It looks like no end.
    assert!(timeout(LIMIT, tunnel.replies.message()).await.unwrap().map_or(true, |end| end.is_none()));
    let _program = guest.connect(Ipv4Addr::new(127, 0, 9, 7)).await;
    assert_eq!(next(&mut told).await.host, "127.0.9.7");
}

#[tokio::test]
async fn so_many_at_once_and_the_next_wait_for_a_place() {
    let guest = Guest::start().await;
    let mut host = guest.agent.open_traffic().await;
    let mut told = accept(&mut host).await;
    let mut programs = Vec::new();
    for _ in 0..=MAX_OUTGOING {
        programs.push(guest.connect(Ipv4Addr::new(127, 0, 9, 8)).await);
    }
    let mut connections = Vec::new();
    for _ in 0..MAX_OUTGOING {
        connections.push(next(&mut told).await.connection);
    }
    assert!(timeout(Duration::from_millis(100), told.message()).await.is_err());
    let mut all = Vec::new();
    for connection in connections {
        all.push(Carried::start(&mut host, connection).await.unwrap());
    }
    // All of them are carried at once, and each by itself.
    for (number, (program, carried)) in programs.iter_mut().zip(&mut all).enumerate() {
        program.write_all(&[number as u8]).await.unwrap();
        assert_eq!(carried.read().await.unwrap().unwrap(), [number as u8]);
    }
    drop(all.pop());
    next(&mut told).await;
}
