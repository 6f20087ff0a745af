//! One HTTP/2 connection with all gRPC services on a session of the link. Windows are small because the guest's memory is the
//! customer's; they bound what a session can make the agent hold.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;

use crate::contract::files_server::FilesServer;
use crate::contract::machine_server::MachineServer;
use crate::contract::processes_server::ProcessesServer;
use crate::contract::tunnels_server::TunnelsServer;
use crate::files::Files;
use crate::machine::Machine;
use crate::outgoing::MAX_OUTGOING;
use crate::processes::Processes;
use crate::tunnels::{MAX_TUNNELS, Tunnels};

const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// Room for every tunnel and every connection on its way out to stand still with its window full, and for files beside them: whoever doesn't read holds up itself.
pub const CONNECTION_WINDOW_BYTES: u32 = (MAX_TUNNELS + MAX_OUTGOING) as u32 * STREAM_WINDOW_BYTES + (1 << 20);
const SEND_BUFFER_BYTES: usize = 64 << 10;
const MAX_STREAMS: u32 = 512;

#[derive(Clone)]
pub struct Server {
    machine: MachineServer<Machine>,
    processes: ProcessesServer<Processes>,
    files: FilesServer<Files>,
    tunnels: TunnelsServer<Tunnels>,
}

impl Server {
    pub fn new(machine: Machine, processes: Processes, files: Files, tunnels: Tunnels) -> Self {
        Self {
            machine: MachineServer::new(machine),
            processes: ProcessesServer::new(processes),
            files: FilesServer::new(files),
            tunnels: TunnelsServer::new(tunnels),
        }
    }

    pub fn start(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> JoinHandle<()> {
        let connection = http2::Builder::new(TokioExecutor::new())
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .max_concurrent_streams(MAX_STREAMS)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(stream), self.clone());
        tokio::spawn(async move {
            // How a connection ends is the host's affair: it notices, and opens another session.
            let _ = connection.await;
        })
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl hyper::service::Service<Request<Incoming>> for Server {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        let name = request.uri().path().split('/').nth(1).unwrap_or_default();
        if name == MachineServer::<Machine>::NAME {
            self.machine.clone().call(request)
        } else if name == ProcessesServer::<Processes>::NAME {
            self.processes.clone().call(request)
        } else if name == FilesServer::<Files>::NAME {
            self.files.clone().call(request)
        } else if name == TunnelsServer::<Tunnels>::NAME {
            self.tunnels.clone().call(request)
        } else {
            let status = tonic::Status::unimplemented("no such service in this agent");
            Box::pin(async move { Ok(status.into_http()) })
        }
    }
}
