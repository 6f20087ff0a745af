//! What a booted guest needs besides mounts, and the way out when there is none. Each step stands alone: one that fails is
//! logged, and the guest is still worth having.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::network;
use crate::errno::check;
use crate::log;

const AGENT_FILES: u64 = 65_536;
const FALLBACK_HOSTNAME: &str = "sandbox";
/// Long enough for a console to print the cause.
const CONSOLE_DRAIN: Duration = Duration::from_millis(200);

type Step = fn() -> io::Result<()>;

pub fn prepare() {
    let steps: [(&str, Step); 8] = [
        ("oom_score_adj", || fs::write("/proc/self/oom_score_adj", "-1000")),
        ("lock memory", lock_memory),
        ("descriptor limit", raise_descriptor_limit),
        ("directories", make_directories),
        ("hostname", set_hostname),
        ("loopback", bring_up_loopback),
        ("network", network::set_up),
        // Groups of processes have cgroups; with this, no key or stray signal restarts the machine.
        ("ctrl-alt-del", || check(unsafe { libc::reboot(libc::RB_DISABLE_CAD) }).map(drop)),
    ];
    for (what, step) in steps {
        if let Err(error) = step() {
            log::error(&format!("{what}: {error}"));
        }
    }
}

pub fn power_off() -> ! {
    std::thread::sleep(CONSOLE_DRAIN);
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    // Not even that: the kernel panics when PID 1 ends, which is loud too.
    std::process::exit(1)
}

/// Code lies in the initramfs, which is never paged out, and without swap neither is the rest. Should guest root add swap,
/// what the agent has touched stays in memory; MCL_ONFAULT keeps it from touching whole stacks in advance.
fn lock_memory() -> io::Result<()> {
    const ON_FAULT: i32 = 4;
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | ON_FAULT) }).map(drop)
}

fn raise_descriptor_limit() -> io::Result<()> {
    let files = libc::rlimit { rlim_cur: AGENT_FILES, rlim_max: 1 << 20 };
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &files) }).map(drop)
}

fn make_directories() -> io::Result<()> {
    unsafe { libc::umask(0o022) };
    for (path, mode) in [("/tmp", 0o1777), ("/run/lock", 0o1777), ("/run/space", 0o755)] {
        fs::create_dir_all(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Until the host gives another.
fn set_hostname() -> io::Result<()> {
    let text = fs::read_to_string("/etc/hostname").unwrap_or_default();
    let name = Some(text.trim()).filter(|name| !name.is_empty()).unwrap_or(FALLBACK_HOSTNAME);
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

fn bring_up_loopback() -> io::Result<()> {
    unsafe {
        let socket =
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request)).map(drop)
    }
}
