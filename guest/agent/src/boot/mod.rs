//! PID 1: from the initramfs to a served port.
//!
//! ```text
//! mounts ─► modules ─► root disk ─► switch root ─► cgroups, names, network ─► ports ─► serve
//! ```
//!
//! Invariant: it ends in serving, or in a message on the console and power off; never in silence.

mod disk;
mod modules;
mod mounts;
mod network;
mod system;

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cgroup::Cgroups;
use crate::files::Files;
use crate::hooks::{self, Hooks};
use crate::identity::Identity;
use crate::link;
use crate::log;
use crate::machine::Machine;
use crate::outgoing::plan::{CONNECTIONS_PORT, DNS_PORT, OWN4, OWN6, Range};
use crate::outgoing::{Outgoing, Redirected};
use crate::port::{self, Port};
use crate::pressure;
use crate::processes::{Anchors, Processes};
use crate::reaper::Reaper;
use crate::server::Server;
use crate::tunnels::Tunnels;

const DEVICE_LIMIT: Duration = Duration::from_secs(10);
const DEVICE_POLL: Duration = Duration::from_millis(2);
/// A port that guest root has unplugged may come back.
const PORT_RETRY: Duration = Duration::from_secs(1);

type BootResult<T> = Result<T, String>;

/// Never returns.
pub fn run() -> ! {
    if let Err(cause) = start() {
        log::error(&format!("boot failed: {cause}"));
    }
    system::power_off()
}

fn start() -> BootResult<()> {
    mounts::early()?;
    if let Ok(kernel_log) = std::fs::OpenOptions::new().write(true).open("/dev/kmsg") {
        log::to_kernel(kernel_log);
    }
    modules::load_all(Path::new("/modules"))?;
    let root = wait_for("the root disk", disk::find)?;
    disk::mount(&root, mounts::NEW_ROOT)?;
    mounts::switch_root()?;
    mounts::late()?;
    system::prepare();
    let control = wait_for("port control", || port::find("control"))?;
    let traffic = wait_for("port traffic", || port::find("traffic"))?;
    crate::runtime().and_then(|runtime| runtime.block_on(serve(&control, &traffic))).map_err(|e| e.to_string())
}

async fn serve(control: &Path, traffic: &Path) -> io::Result<()> {
    let reaper = Reaper::start()?;
    let cgroups = Arc::new(Cgroups::create(Path::new(mounts::CGROUP), true)?);
    tokio::spawn(pressure::relieve(cgroups.clone()));
    let mut outgoing = Outgoing::new(Range::GUEST, Redirected::ByTheKernel);
    let own = |port: u16| [(OWN4, port).into(), (OWN6, port).into()];
    outgoing.open(&own(CONNECTIONS_PORT), &own(DNS_PORT)).await;
    let tunnels = Tunnels::new(outgoing);
    let processes = Processes::new(Some(cgroups.clone()), reaper, Anchors::open()?);
    let hooks = Hooks::new(Some(hooks::FOLDER.into()), processes.clone());
    let server = Server::new(
        Machine::new(Some(cgroups), Identity::new(false), tunnels.clone(), hooks),
        processes,
        Files::new(),
        tunnels,
    );
    log::info("ready");
    tokio::join!(serve_port(control, &server), serve_port(traffic, &server));
    Ok(())
}

async fn serve_port(device: &Path, server: &Server) {
    loop {
        // A task of its own, so that even a bug in the agent ends one connection and not the machine.
        let ended = tokio::spawn(serve_opened(device.to_owned(), server.clone())).await;
        let cause = match ended {
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic.to_string(),
        };
        log::error(&format!("{}: {cause}", device.display()));
        tokio::time::sleep(PORT_RETRY).await;
    }
}

async fn serve_opened(device: PathBuf, server: Server) -> io::Result<Infallible> {
    let mut port = Port::open(&device)?;
    loop {
        port.connected().await?;
        link::serve(&mut port, |stream| server.start(stream)).await?;
    }
}

/// Devices appear a moment after their module is loaded.
fn wait_for<T>(what: &str, look: impl Fn() -> io::Result<T>) -> BootResult<T> {
    let deadline = Instant::now() + DEVICE_LIMIT;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(error) if Instant::now() >= deadline => return Err(format!("{what}: {error}")),
            Err(_) => std::thread::sleep(DEVICE_POLL),
        }
    }
}
