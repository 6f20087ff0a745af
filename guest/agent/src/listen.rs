//! The agent as an ordinary process, for tests: unix sockets take the place of the ports, nothing is mounted, and the machine
//! it runs on keeps its identity if asked to. Everything above the ports is the same code.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use crate::cgroup::Cgroups;
use crate::errno::check;
use crate::files::Files;
use crate::hooks::Hooks;
use crate::identity::Identity;
use crate::link;
use crate::log;
use crate::machine::Machine;
use crate::outgoing::plan::Range;
use crate::outgoing::{Outgoing, Redirected};
use crate::processes::{Anchors, Processes};
use crate::reaper::Reaper;
use crate::server::Server;
use crate::tunnels::Tunnels;

pub const USAGE: &str = "usage: space-agent --listen DIR [--cgroup PATH] [--dry-identity] [--outgoing PORT --dns PORT] [--hooks DIR]\n\n\
    As PID 1 it takes no options. Otherwise it serves the link on DIR/control and DIR/traffic; a new connection takes\n\
    the place of the one before.\n  \
    --cgroup PATH    a cgroup v2 directory to make the tree of user processes in; without it there is no freeze,\n                   \
    and signals reach only leaders\n  \
    --dry-identity   leave clock, hostname and files of this machine as they are\n  \
    --outgoing PORT  take connections to this port of any loopback address, where they go in the contract; the addresses\n                   \
    of names are 127.18.0.0/15\n  \
    --dns PORT       answer for names, at 127.0.0.1\n  \
    --hooks DIR      where hooks are; without it there are none";

pub struct Options {
    directory: PathBuf,
    cgroup: Option<PathBuf>,
    dry_identity: bool,
    outgoing: Option<u16>,
    dns: Option<u16>,
    hooks: Option<PathBuf>,
}

impl Options {
    pub fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let (mut directory, mut cgroup, mut dry_identity) = (None, None, false);
        let (mut outgoing, mut dns, mut hooks) = (None, None, None);
        while let Some(argument) = arguments.next() {
            match argument.to_str()? {
                "--listen" => directory = Some(arguments.next()?.into()),
                "--cgroup" => cgroup = Some(arguments.next()?.into()),
                "--dry-identity" => dry_identity = true,
                "--outgoing" => outgoing = Some(arguments.next()?.to_str()?.parse().ok()?),
                "--dns" => dns = Some(arguments.next()?.to_str()?.parse().ok()?),
                "--hooks" => hooks = Some(arguments.next()?.into()),
                _ => return None,
            }
        }
        Some(Self { directory: directory?, cgroup, dry_identity, outgoing, dns, hooks })
    }
}

/// Serves until it is killed.
pub fn run(options: Options) -> io::Result<()> {
    // Orphans of the commands come to us as they come to PID 1.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })?;
    stop_ignoring_signals();
    crate::runtime()?.block_on(async {
        let reaper = Reaper::start()?;
        let cgroups = options.cgroup.as_deref().map(|root| Cgroups::create(root, false)).transpose()?.map(Arc::new);
        let mut outgoing = Outgoing::new(Range::LOOPBACK, Redirected::Not);
        let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        outgoing.open(options.outgoing.map(any).as_slice(), options.dns.map(local).as_slice()).await;
        let tunnels = Tunnels::new(outgoing);
        let processes = Processes::new(cgroups.clone(), reaper, Anchors::open()?);
        let hooks = Hooks::new(options.hooks.clone(), processes.clone());
        let server = Server::new(
            Machine::new(cgroups, Identity::new(options.dry_identity), tunnels.clone(), hooks),
            processes,
            Files::new(),
            tunnels,
        );
        let control = listen(&options.directory, "control")?;
        let traffic = listen(&options.directory, "traffic")?;
        log::info(&format!("listening in {}", options.directory.display()));
        tokio::try_join!(accept(control, server.clone()), accept(traffic, server)).map(drop)
    })
}

/// What our starter ignored, every command would. PID 1 has no starter. The C library hides two signals from its own call.
fn stop_ignoring_signals() {
    const MASK_BYTES: usize = 8;
    let default = [libc::SIG_DFL as u64; 4];
    for signal in (1..=64).filter(|signal| *signal != libc::SIGPIPE) {
        let mut now = default;
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, std::ptr::null::<u64>(), now.as_mut_ptr(), MASK_BYTES);
            if now[0] == libc::SIG_IGN as u64 {
                libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), MASK_BYTES);
            }
        }
    }
}

fn listen(directory: &Path, name: &str) -> io::Result<UnixListener> {
    let path = directory.join(name);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    UnixListener::bind(path)
}

async fn accept(listener: UnixListener, server: Server) -> io::Result<()> {
    let mut current: Option<JoinHandle<()>> = None;
    loop {
        let (connection, _) = listener.accept().await?;
        if let Some(replaced) = current.take() {
            replaced.abort();
        }
        let server = server.clone();
        current = Some(tokio::spawn(async move {
            // A connection that breaks is a host that went away.
            let _ = link::serve(connection, |stream| server.start(stream)).await;
        }));
    }
}
