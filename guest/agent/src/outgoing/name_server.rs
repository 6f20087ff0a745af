//! The name server's sockets. Questions come redirected, from whatever address they were sent to.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::dns;
use super::names::Names;
use super::plan::Range;
use crate::log;

const MAX_QUERY_BYTES: usize = 4096;
const MAX_CONNECTIONS: usize = 16;
/// For a question over TCP, and between two.
const CONNECTION_LIMIT: Duration = Duration::from_secs(5);
/// After an error that may come again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub struct NameServer {
    names: Arc<Mutex<Names>>,
    range: Range,
    room: Arc<Semaphore>,
}

impl NameServer {
    pub fn new(names: Arc<Mutex<Names>>, range: Range) -> Self {
        Self { names, range, room: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }

    /// Serves on the address until the machine ends.
    pub async fn start(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let datagrams = UdpSocket::bind(address).await?;
        let address = datagrams.local_addr()?;
        let connections = TcpListener::bind(address).await?;
        tokio::spawn(self.clone().serve_datagrams(datagrams));
        tokio::spawn(self.clone().serve_connections(connections));
        Ok(address)
    }

    fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        dns::answer(query, &mut self.names.lock().unwrap_or_else(PoisonError::into_inner), self.range)
    }

    async fn serve_datagrams(self, socket: UdpSocket) {
        let mut buffer = [0; MAX_QUERY_BYTES];
        loop {
            match socket.recv_from(&mut buffer).await {
                Ok((length, from)) => {
                    if let Some(answer) = self.answer(&buffer[..length]) {
                        // Who asked asks again.
                        let _ = socket.try_send_to(&answer, from);
                    }
                }
                Err(error) => pause("name server", &error).await,
            }
        }
    }

    async fn serve_connections(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    // One too many is closed.
                    let Ok(permit) = self.room.clone().try_acquire_owned() else { continue };
                    let server = self.clone();
                    tokio::spawn(async move {
                        let _ = server.converse(socket).await;
                        drop(permit);
                    });
                }
                Err(error) => pause("name server", &error).await,
            }
        }
    }

    async fn converse(&self, mut socket: TcpStream) -> io::Result<()> {
        loop {
            let query = timeout(CONNECTION_LIMIT, read_query(&mut socket)).await??;
            let Some(answer) = self.answer(&query) else { return Ok(()) };
            let framed = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
            timeout(CONNECTION_LIMIT, socket.write_all(&framed)).await??;
        }
    }
}

async fn read_query(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = usize::from(socket.read_u16().await?);
    if length > MAX_QUERY_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut query = vec![0; length];
    socket.read_exact(&mut query).await?;
    Ok(query)
}

pub async fn pause(what: &str, error: &io::Error) {
    log::error(&format!("{what}: {error}"));
    sleep(ERROR_PAUSE).await;
}
