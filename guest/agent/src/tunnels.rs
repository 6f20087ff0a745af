//! The Tunnels service: TCP connections between the guest and the host, to the guest's loopback (Dial) and out of it (Carry).
//!
//! Each connection is one task, apart from the HTTP/2 connection that carries it: so that it ends at once when the machine
//! takes a new identity, although nobody may be reading any more. Idle, it has no timer and wakes nobody. A buffer is there
//! only while bytes are in it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::Bytes;
use tonic::{Request, Response, Status, Streaming};

use crate::contract::dial_reply::{Connected, Part as Reply};
use crate::contract::dial_request::Part;
use crate::contract::{AcceptRequest, Accepted, DialReply, DialRequest, End, tunnels_server};
use crate::errno;
use crate::outgoing::{Outgoing, Waiting};

/// The windows of HTTP/2 are sized for so many that all stand still (see `server.rs`).
pub const MAX_TUNNELS: usize = 128;
/// A loopback connection waits only for a listener whose queue is full.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 32 << 10;
/// Beside it, each tunnel holds at most one piece.
const QUEUED_REPLIES: usize = 1;

type Sender = mpsc::Sender<Result<DialReply, Status>>;

#[derive(Clone)]
pub struct Tunnels {
    room: Arc<Semaphore>,
    /// News to every tunnel that it is of the past.
    past: watch::Sender<()>,
    outgoing: Outgoing,
}

impl Tunnels {
    pub fn new(outgoing: Outgoing) -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_TUNNELS)), past: watch::Sender::new(()), outgoing }
    }

    /// Resets every connection: their other ends belong to another life.
    pub fn reset_all(&self) {
        self.past.send_replace(());
        self.outgoing.reset_all();
    }
}

#[tonic::async_trait]
impl tunnels_server::Tunnels for Tunnels {
    type DialStream = ReceiverStream<Result<DialReply, Status>>;
    type AcceptStream = ReceiverStream<Result<Accepted, Status>>;
    type CarryStream = Self::DialStream;

    async fn dial(&self, request: Request<Streaming<DialRequest>>) -> Result<Response<Self::DialStream>, Status> {
        let permit = self.room.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Status::resource_exhausted("too many tunnels are open"))?;
        let past = self.past.subscribe();
        let mut requests = request.into_inner();
        let port = first_port(requests.message().await?)?;
        let socket = connect(port).await?;
        let (sender, replies) = mpsc::channel(QUEUED_REPLIES);
        tokio::spawn(run(socket, requests, sender, past, permit));
        Ok(Response::new(ReceiverStream::new(replies)))
    }

    async fn accept(&self, _: Request<AcceptRequest>) -> Result<Response<Self::AcceptStream>, Status> {
        let (told, announcements) = mpsc::channel(QUEUED_REPLIES);
        self.outgoing.accept(told);
        Ok(Response::new(ReceiverStream::new(announcements)))
    }

    async fn carry(&self, request: Request<Streaming<DialRequest>>) -> Result<Response<Self::CarryStream>, Status> {
        let past = self.past.subscribe();
        let mut requests = request.into_inner();
        let Some(DialRequest { part: Some(Part::Connection(connection)) }) = requests.message().await? else {
            return Err(Status::invalid_argument("the first message is not the number of a connection"));
        };
        let Some(Waiting { socket, permit }) = self.outgoing.take(connection) else {
            return Err(Status::not_found("no such connection waits"));
        };
        let (sender, replies) = mpsc::channel(QUEUED_REPLIES);
        tokio::spawn(run(socket, requests, sender, past, permit));
        Ok(Response::new(ReceiverStream::new(replies)))
    }
}

fn first_port(request: Option<DialRequest>) -> Result<u16, Status> {
    let Some(DialRequest { part: Some(Part::Port(port)) }) = request else {
        return Err(Status::invalid_argument("the first message is not a port"));
    };
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(Status::invalid_argument("a port is 1 to 65535")),
    }
}

async fn connect(port: u16) -> Result<TcpStream, Status> {
    let dial = |address: IpAddr| TcpStream::connect(SocketAddr::new(address, port));
    let connecting = async {
        match dial(Ipv4Addr::LOCALHOST.into()).await {
            // Without IPv6 there is another error, which says nothing of the port.
            Err(refused) if is_refused(&refused) => dial(Ipv6Addr::LOCALHOST.into()).await.map_err(|_| refused),
            other => other,
        }
    };
    let socket = match timeout(CONNECT_LIMIT, connecting).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(e)) if is_refused(&e) => return Err(Status::not_found(format!("nothing listens on port {port}"))),
        Ok(Err(e)) => return Err(errno::status(&e, "connect")),
        Err(_) => return Err(Status::deadline_exceeded(format!("port {port} took no connection in time"))),
    };
    socket.set_nodelay(true).map_err(|e| errno::status(&e, "TCP_NODELAY"))?;
    Ok(socket)
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

async fn run(
    socket: TcpStream,
    requests: Streaming<DialRequest>,
    replies: Sender,
    mut past: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
) {
    let ended_well = tokio::select! {
        ended_well = carry(&socket, requests, &replies) => ended_well,
        () = replies.closed() => false,
        _ = past.changed() => false,
    };
    if !ended_well {
        // The close that follows is then a reset: what was cut must not look complete.
        let _ = socket.set_zero_linger();
    }
}

/// Both directions; true when both sides have ended.
async fn carry(socket: &TcpStream, requests: Streaming<DialRequest>, replies: &Sender) -> bool {
    if !reply(replies, Reply::Connected(Connected {})).await {
        return false;
    }
    let (mut taking, mut giving) = (pin!(take(socket, requests)), pin!(give(socket, replies)));
    let ended = tokio::select! {
        taken = &mut taking => match taken {
            Err(None) => Err(None),
            // What was sent before a reset is still read and passed on.
            _ => giving.await.and(taken),
        },
        given = &mut giving => match given {
            Ok(()) => taking.await,
            cut => cut,
        },
    };
    let Err(cause) = ended else { return true };
    if let Some(error) = cause {
        let _ = replies.send(Err(Status::aborted(errno::message(&error, "connection")))).await;
    }
    false
}

/// Why a direction ended early: an error of the connection, or (None) the host has left.
type Cut = Option<io::Error>;

async fn take(socket: &TcpStream, mut requests: Streaming<DialRequest>) -> Result<(), Cut> {
    // A stream that was cut may look as if it had ended.
    while let Some(request) = requests.message().await.map_err(|_| None)? {
        let data = match request.part {
            Some(Part::Data(data)) => data,
            Some(Part::End(_)) => {
                return errno::check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) })
                    .map(drop)
                    .map_err(Some);
            }
            _ => return Err(None),
        };
        let mut rest = &data[..];
        while !rest.is_empty() {
            socket.writable().await?;
            match socket.try_write(rest) {
                Ok(length) => rest = &rest[length..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(Some(e)),
            }
        }
    }
    Err(None)
}

async fn give(socket: &TcpStream, replies: &Sender) -> Result<(), Cut> {
    loop {
        socket.readable().await?;
        let mut buffer = Vec::with_capacity(READ_BYTES);
        match socket.try_read_buf(&mut buffer) {
            Ok(0) => return if reply(replies, Reply::End(End {})).await { Ok(()) } else { Err(None) },
            Ok(_) => {
                // Most pieces are short, and may wait for the host for long.
                buffer.shrink_to_fit();
                if !reply(replies, Reply::Data(Bytes::from(buffer))).await {
                    return Err(None);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(Some(e)),
        }
    }
}

async fn reply(replies: &Sender, part: Reply) -> bool {
    replies.send(Ok(DialReply { part: Some(part) })).await.is_ok()
}
