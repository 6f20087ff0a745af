//! The one process of the platform that has root. It does a closed list of verbs for the node, and nothing else.
//!
//! ```text
//!   node (no privilege)        unix socket, the node's alone          helper (root)
//!   ───────────────────  ── 7 startVmm lif_… restore tcg ──────►  checks the peer's user, then each argument
//!                        ◄─ {"id":7,"ok":{"pid":4711,…}} ───────  does one verb, answers, forgets
//! ```
//!
//! Invariants: no argument is a path; what is opened is named by ids of known forms, beneath folders of the configuration,
//! without links; nothing that a guest or a VMM says is read; whatever is to be known later lies in run folders that only
//! root can write to. So the helper can be killed and started again at any time.

mod backing;
mod cgroups;
mod config;
mod containers;
mod cryptsetup;
mod dm_crypt;
mod failure;
mod files;
mod lacks;
mod loops;
mod mounts;
mod names;
mod nodes;
mod owners;
mod processes;
mod run_folders;
mod secret;
mod server;
mod uids;
mod vault_servers;
mod vaults;
mod verbs;
mod vmms;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;

use config::Config;
use failure::Result;
use verbs::Helper;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("The helper did not start: {}", failure.detail);
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    // What it makes is for itself, unless a mode is given.
    unsafe { libc::umask(0o077) };
    // Keys of vaults pass through here.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    let path = std::env::args().nth(1).unwrap_or_default();
    let config = Config::read(&path)?;
    let helper = Arc::new(Helper::open(config)?);
    server::serve(&helper)
}
