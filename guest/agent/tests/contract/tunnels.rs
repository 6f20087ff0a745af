//! Connections into the guest: here the agent's loopback is this machine's, so the tests listen on it themselves.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::host::contract::{DialReply, DialRequest, End, dial_reply, dial_request::Part};
use crate::host::{Agent, Host, until};
use crate::machine::identity;

const MAX_TUNNELS: usize = 128;

struct Tunnel {
    requests: Option<mpsc::Sender<DialRequest>>,
    replies: Streaming<DialReply>,
}

impl Tunnel {
    async fn dial(host: &mut Host, port: u16) -> Result<Self, Status> {
        let (requests, queue) = mpsc::channel(1);
        requests.send(DialRequest { part: Some(Part::Port(port.into())) }).await.unwrap();
        let mut replies = host.tunnels.dial(ReceiverStream::new(queue)).await?.into_inner();
        let first = replies.message().await?.unwrap().part.unwrap();
        assert!(matches!(first, dial_reply::Part::Connected(_)));
        Ok(Self { requests: Some(requests), replies })
    }

    async fn send(&self, data: &'static [u8]) -> bool {
        let request = DialRequest { part: Some(Part::Data(data.into())) };
        self.requests.as_ref().unwrap().send(request).await.is_ok()
    }

    async fn end(&mut self) {
        let end = DialRequest { part: Some(Part::End(End {})) };
        self.requests.take().unwrap().send(end).await.unwrap();
    }

    /// Everything up to the guest's end.
    async fn rest(&mut self) -> Result<Vec<u8>, Status> {
        let mut all = Vec::new();
        loop {
            match self.replies.message().await?.expect("a tunnel closed without an end").part.unwrap() {
                dial_reply::Part::Data(data) => all.extend_from_slice(&data),
                dial_reply::Part::End(_) => return Ok(all),
                dial_reply::Part::Connected(_) => panic!("connected twice"),
            }
        }
    }
}

async fn listen(address: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A connection from both of its ends.
async fn connected(host: &mut Host) -> (Tunnel, TcpStream) {
    let (listener, port) = listen("127.0.0.1").await;
    let (tunnel, accepted) = tokio::join!(Tunnel::dial(host, port), listener.accept());
    (tunnel.unwrap(), accepted.unwrap().0)
}

async fn how_it_ended(mut socket: TcpStream) -> Result<usize, io::ErrorKind> {
    socket.read(&mut [0; 16]).await.map_err(|error| error.kind())
}

const RESET: Result<usize, io::ErrorKind> = Err(io::ErrorKind::ConnectionReset);

#[tokio::test]
async fn bytes_pass_both_ways_and_each_side_ends_by_itself() {
    let agent = Agent::start().await;
    let (mut tunnel, mut socket) = connected(&mut agent.open_traffic().await).await;
    assert!(tunnel.send(b"question").await);
    tunnel.end().await;
    let mut question = Vec::new();
    socket.read_to_end(&mut question).await.unwrap();
    assert_eq!(question, b"question");
    // The host has ended, and still hears what comes.
    socket.write_all(b"answer").await.unwrap();
    drop(socket);
    assert_eq!(tunnel.rest().await.unwrap(), b"answer");
    assert!(tunnel.replies.message().await.unwrap().is_none());
}

#[tokio::test]
async fn the_guest_may_end_first() {
    let agent = Agent::start().await;
    let (mut tunnel, mut socket) = connected(&mut agent.open_traffic().await).await;
    socket.shutdown().await.unwrap();
    assert_eq!(tunnel.rest().await.unwrap(), b"");
    assert!(tunnel.send(b"late").await);
    tunnel.end().await;
    let mut late = Vec::new();
    socket.read_to_end(&mut late).await.unwrap();
    assert_eq!(late, b"late");
    assert!(tunnel.replies.message().await.unwrap().is_none());
}

#[tokio::test]
async fn ipv6_is_tried_where_nothing_listens_on_ipv4() {
    let agent = Agent::start().await;
    let mut host = agent.open_traffic().await;
    let (listener, port) = listen("::1").await;
    let (tunnel, accepted) = tokio::join!(Tunnel::dial(&mut host, port), listener.accept());
    assert!(tunnel.is_ok() && accepted.is_ok());
}

#[tokio::test]
async fn what_cannot_be_dialled_is_refused_with_its_cause() {
    let agent = Agent::start().await;
    let mut host = agent.open_traffic().await;
    let (listener, port) = listen("127.0.0.1").await;
    drop(listener);
    assert_eq!(Tunnel::dial(&mut host, port).await.err().unwrap().code(), Code::NotFound);
    assert_eq!(Tunnel::dial(&mut host, 0).await.err().unwrap().code(), Code::InvalidArgument);
    for first in [Part::Port(65_536), Part::Data(b"data"[..].into())] {
        let requests = tokio_stream::iter([DialRequest { part: Some(first) }]);
        assert_eq!(host.tunnels.dial(requests).await.err().unwrap().code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn what_is_cut_looks_cut_to_the_other_side() {
    let agent = Agent::start().await;
    let mut host = agent.open_traffic().await;
    let (tunnel, socket) = connected(&mut host).await;
    drop(tunnel);
    assert_eq!(how_it_ended(socket).await, RESET);

    let (mut tunnel, socket) = connected(&mut host).await;
    tunnel.requests = None;
    assert_eq!(how_it_ended(socket).await, RESET);

    let (mut tunnel, socket) = connected(&mut host).await;
    socket.set_zero_linger().unwrap();
    drop(socket);
    assert_eq!(tunnel.rest().await.unwrap_err().code(), Code::Aborted);

    let (_tunnel, socket) = connected(&mut host).await;
    let _next = agent.open_traffic().await;
    assert_eq!(how_it_ended(socket).await, RESET);
}

#[tokio::test]
async fn a_new_identity_resets_every_connection_also_when_nobody_reads() {
    let agent = Agent::start().await;
    let mut traffic = agent.open_traffic().await;
    let (_quiet, quiet) = connected(&mut traffic).await;
    let (_stuck, mut stuck) = connected(&mut traffic).await;
    let block = vec![7; 1 << 20];
    // Until everything on the way is full.
    while tokio::time::timeout(Duration::from_millis(200), stuck.write_all(&block)).await.is_ok() {}
    agent.open().await.machine.assume_identity(identity()).await.unwrap();
    assert_eq!(how_it_ended(quiet).await, RESET);
    assert_eq!(how_it_ended(stuck).await, RESET);
    assert!(connected(&mut traffic).await.0.send(b"on").await);
}

#[tokio::test]
async fn as_many_as_there_may_be_can_stand_still_and_hold_up_no_other_call() {
    let agent = Agent::start().await;
    let mut host = agent.open_traffic().await;
    static BLOCK: [u8; 32 << 10] = [7; 32 << 10];
    // Little room in the kernel, so that it is soon full.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(8).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut held = Vec::new();
    for _ in 0..MAX_TUNNELS {
        let (tunnel, accepted) = tokio::join!(Tunnel::dial(&mut host, port), listener.accept());
        held.push((tunnel.unwrap(), accepted.unwrap()));
    }
    assert_eq!(Tunnel::dial(&mut host, port).await.err().unwrap().code(), Code::ResourceExhausted);
    // Nobody reads: each takes what its buffers and its window hold, and no more.
    let fill = |tunnel: &Tunnel| {
        let requests = tunnel.requests.clone().unwrap();
        async move {
            let send = || requests.send(DialRequest { part: Some(Part::Data(BLOCK[..].into())) });
            while tokio::time::timeout(Duration::from_millis(500), send()).await == Ok(Ok(())) {}
        }
    };
    let filling: Vec<_> = held.iter().map(|(tunnel, _)| tokio::spawn(fill(tunnel))).collect();
    for one in filling {
        one.await.unwrap();
    }
    assert_eq!(host.shell("head -c 2000000 /dev/zero | tr '\\0' x").await.stdout.len(), 2_000_000);
    // Those
    held.clear();
    until("there is room again", || {
        let mut host = host.clone();
        async move { Tunnel::dial(&mut host, port).await.is_ok() }
    })
    .await;
}
