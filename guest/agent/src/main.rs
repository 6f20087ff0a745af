//! The agent inside a sandbox: the host's hands in the guest. It is PID 1 of the VM and does only what the host asks of it over
//! two virtio-serial ports; what it may be asked is in `guest/proto`.
//!
//! ```text
//! host ══ port "control" ══ link ══ HTTP/2 ══╦══ machine    clock, entropy, names, freeze
//! host ══ port "traffic" ══ link ══ HTTP/2 ══╬══ processes  start, output, exit codes, signals
//!                                            ╠══ files      as the requesting user
//!                                            ╚══ tunnels    connections to ports of the loopback, and out of the guest
//! ```
//!
//! One thread runs everything but file work. Invariants: idle, the agent has no timer and dirties no page; nothing that the
//! guest's root does to files, mounts or limits ends it; no length or speed on the other side makes it hold unbounded memory.

mod boot;
mod cgroup;
mod descriptor;
mod errno;
mod files;
mod hooks;
mod identity;
mod link;
mod listen;
mod log;
mod machine;
mod netlink;
mod outgoing;
mod port;
mod pressure;
mod processes;
mod reaper;
mod server;
mod trust;
mod tunnels;
mod users;

mod contract {
    #![allow(clippy::all, clippy::pedantic)]
    tonic::include_proto!("space.guest.v1");
}

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    keep_freed_memory();
    if std::process::id() == 1 {
        boot::run();
    }
    match listen::Options::parse(std::env::args_os().skip(1)).map(listen::run) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            log::error(&error.to_string());
            ExitCode::FAILURE
        }
        None => {
            eprintln!("{}", listen::USAGE);
            ExitCode::from(2)
        }
    }
}

/// The C library would give the end of its heap back after each session and each large buffer, and take it again for the next: system
/// calls, and a fault of the page tables for every page, locked and zeroed anew. On a processor without KVM each costs 40 µs.
fn keep_freed_memory() {
    const KEPT_BYTES: i32 = 1 << 20;
    for parameter in [libc::M_TRIM_THRESHOLD, libc::M_MMAP_THRESHOLD] {
        // SAFETY: no other thread is there yet. One that it refuses leaves things as they were.
        unsafe { libc::mallopt(parameter, KEPT_BYTES) };
    }
}

/// One thread: the guest has one processor, and each thread more is a wake-up more.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()
}
