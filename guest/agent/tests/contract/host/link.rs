//! The host's end of the link.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

const SYNCED_LIMIT: Duration = Duration::from_millis(250);
const OPEN_LIMIT: Duration = Duration::from_secs(60);
const MAX_PAYLOAD: usize = 32_768;

pub const SYNC: u8 = 1;
pub const SYNCED: u8 = 2;
pub const DATA: u8 = 3;

pub fn header(kind: u8, session: u64, length: usize) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(b"SPLK");
    bytes[4] = kind;
    bytes[8..16].copy_from_slice(&session.to_le_bytes());
    bytes[16..].copy_from_slice(&(length as u32).to_le_bytes());
    bytes
}

pub fn random_session() -> u64 {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

/// A session on a new connection to the port.
pub async fn open(socket: &Path) -> io::Result<DuplexStream> {
    let mut port = UnixStream::connect(socket).await?;
    let session = synchronise(&mut port).await?;
    Ok(carry(port, session))
}

/// Rules 1, 5 and 6.
pub async fn synchronise(port: &mut UnixStream) -> io::Result<u64> {
    let deadline = Instant::now() + OPEN_LIMIT;
    loop {
        let session = random_session();
        port.write_all(&header(SYNC, session, 0)).await?;
        match timeout(SYNCED_LIMIT, find_synced(port, session)).await {
            Ok(found) => return found.map(|()| session),
            Err(_) if Instant::now() > deadline => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => port.write_all(&vec![0; MAX_PAYLOAD + 20]).await?,
        }
    }
}

pub async fn find_synced(port: &mut UnixStream, session: u64) -> io::Result<()> {
    let wanted = header(SYNCED, session, 0);
    let mut window = Vec::new();
    while window != wanted {
        if window.len() == wanted.len() {
            window.remove(0);
        }
        window.push(port.read_u8().await?);
    }
    Ok(())
}

/// A byte stream over the frames of a session; it ends when the session breaks a rule.
pub fn carry(port: UnixStream, session: u64) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(256 << 10);
    let (mut port_reader, mut port_writer) = port.into_split();
    let (mut reader, mut writer) = tokio::io::split(theirs);
    let receiving = async move {
        loop {
            let mut head = [0; 20];
            port_reader.read_exact(&mut head).await?;
            let length = u32::from_le_bytes(head[16..].try_into().unwrap()) as usize;
            if head[..16] != header(DATA, session, 0)[..16] || length > MAX_PAYLOAD {
                return Err::<(), _>(io::Error::from(io::ErrorKind::InvalidData));
            }
            let mut payload = vec![0; length];
            port_reader.read_exact(&mut payload).await?;
            writer.write_all(&payload).await?;
        }
    };
    let sending = async move {
        let mut payload = vec![0; MAX_PAYLOAD];
        loop {
            let length = reader.read(&mut payload).await?;
            if length == 0 {
                return Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe));
            }
            port_writer.write_all(&header(DATA, session, length)).await?;
            port_writer.write_all(&payload[..length]).await?;
        }
    };
    tokio::spawn(async move {
        // Either direction's end is the session's.
        let _ = tokio::try_join!(receiving, sending);
    });
    ours
}

pub async fn channel(stream: DuplexStream) -> Channel {
    let mut stream = Some(stream);
    let connector = service_fn(move |_| {
        let taken = stream.take().map(TokioIo::new).ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        async move { taken }
    });
    Endpoint::from_static("http://guest").connect_with_connector(connector).await.unwrap()
}
