//! Starts one VMM in a jail of its own, and stays beside it until it has ended.
//!
//! ```text
//!   warden (this process)                 VMM: process 1 of its own pid namespace
//!   ─────────────────────                 ──────────────────────────────────────
//!   listens on the sockets  ───────────►  inherits them, from descriptor 3 on
//!   writes the record       ── go ─────►  cgroups, namespaces, root, limits, user, filter, exec
//!   gives up its privileges
//!   waits; ends as the VMM ends
//! ```
//!
//! Invariants: the VMM is recorded before it runs anything; it holds no descriptor, path, privilege or environment that
//! is not named here; when the warden ends, the VMM has ended.

mod filter;
mod plan;
mod powers;
mod room;
mod tsc;

use std::ffi::CString;
use std::io::{Error, Read, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::{fs, io, ptr};

use plan::Plan;

const RECORD: &str = "../vmm.json";
/// First in line when the machine is out of memory.
const OOM_SCORE: &str = "500";
/// Its only argument: says the rate of the TSC in kHz, and starts nothing.
const TSC_KHZ: &str = "tsc-khz";

fn main() {
    if std::env::args().skip(1).eq([TSC_KHZ]) {
        match tsc::khz() {
            Ok(khz) => println!("{khz}"),
            Err(error) => fail(&error),
        }
        return;
    }
    let outcome = Plan::from_arguments(std::env::args().skip(1)).and_then(|plan| run(&plan));
    if let Err(error) = outcome {
        fail(&error);
    }
}

fn fail(error: &Error) -> ! {
    eprintln!("The jail could not be made: {error}");
    std::process::exit(1);
}

fn run(plan: &Plan) -> Result<()> {
    powers::close_inherited();
    let sockets = plan.listen.iter().map(|name| listen(name)).collect::<Result<Vec<_>>>()?;
    let (wait_for_go, go) = UnixStream::pair()?;
    check("unshare", unsafe { libc::unshare(libc::CLONE_NEWPID) })?;
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => {
            drop(go);
            // Nothing to read means that the warden has failed: then nothing is started.
            if (&wait_for_go).read(&mut [0])? == 0 {
                std::process::exit(1);
            }
            // Said before the sockets close: their end is taken for that of the VMM.
            fail(&become_vmm(plan, &sockets, &wait_for_go))
        }
        vmm => {
            drop(wait_for_go);
            if let Err(error) = record(vmm).and_then(|()| (&go).write_all(b"!")) {
                unsafe { libc::kill(vmm, libc::SIGKILL) };
                return Err(error);
            }
            drop(sockets);
            powers::drop_all(plan.uid, &[])?;
            let status = wait(vmm)?;
            drop(go);
            end_like(status)
        }
    }
}

/// Returns only when it fails.
fn become_vmm(plan: &Plan, sockets: &[UnixListener], warden: &UnixStream) -> Error {
    let step = || -> Result<Error> {
        for procs in &plan.cgroups {
            fs::write(procs, "0").map_err(|error| about(procs, &error))?;
        }
        fs::write("/proc/self/oom_score_adj", OOM_SCORE).map_err(|error| about("oom_score_adj", &error))?;
        room::enter(plan)?;
        hand_over(sockets)?;
        powers::limit(plan)?;
        powers::drop_all(plan.uid, plan.group.as_slice())?;
        // After the change of user, which clears it.
        check("prctl", unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        if has_ended(warden) {
            return Err(Error::other("the warden has ended"));
        }
        filter::install()?;
        Ok(exec(&plan.program))
    };
    step().unwrap_or_else(|error| error)
}

/// The warden holds its end of the pipe for as long as it lives.
fn has_ended(warden: &UnixStream) -> bool {
    let mut ready = libc::pollfd { fd: warden.as_raw_fd(), events: 0, revents: 0 };
    unsafe { libc::poll(&mut ready, 1, 0) > 0 }
}

fn listen(name: &str) -> Result<UnixListener> {
    UnixListener::bind(name).map_err(|error| about(name, &error))
}

/// The VMM's descriptors: no input, no output, complaints, and the sockets in their order from 3 on.
fn hand_over(sockets: &[UnixListener]) -> Result<()> {
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    for standard in [0, 1] {
        check("dup2", unsafe { libc::dup2(null.as_raw_fd(), standard) })?;
    }
    // First out of the way: what is at a number now may be another socket.
    let moved = sockets
        .iter()
        .map(|socket| check("fcntl", unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 64) }))
        .collect::<Result<Vec<_>>>()?;
    for (number, socket) in (3..).zip(moved) {
        check("dup2", unsafe { libc::dup2(socket, number) })?;
    }
    Ok(())
}

/// Which process it is, kept in the folder and told to whoever started the warden.
fn record(vmm: libc::pid_t) -> Result<()> {
    let stat = fs::read_to_string(format!("/proc/{vmm}/stat"))?;
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    let start = fields.split(' ').nth(19).ok_or_else(|| Error::other("/proc/pid/stat has an unknown form"))?;
    let text = format!("{{\"pid\":{vmm},\"startTime\":\"{start}\"}}");
    let draft = format!("{RECORD}.draft");
    fs::write(&draft, &text).map_err(|error| about(&draft, &error))?;
    fs::rename(&draft, RECORD)?;
    println!("{text}");
    check("dup2", unsafe { libc::dup2(2, 1) })?;
    Ok(())
}

fn wait(vmm: libc::pid_t) -> Result<libc::c_int> {
    let mut status = 0;
    while unsafe { libc::waitpid(vmm, &mut status, 0) } < 0 {
        let error = Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(status)
}

/// With the same status, or by the same signal; the last that is said tells which.
fn end_like(status: libc::c_int) -> ! {
    let (how, number) = if libc::WIFSIGNALED(status) {
        ("signal", libc::WTERMSIG(status))
    } else {
        ("status", libc::WEXITSTATUS(status))
    };
    // Whoever listened may be gone.
    let _ = write!(io::stderr(), "\n[ended] {how} {number}\n");
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
        }
    }
    std::process::exit(libc::WEXITSTATUS(status))
}

fn exec(program: &[CString]) -> Error {
    let mut argv: Vec<_> = program.iter().map(|argument| argument.as_ptr()).collect();
    argv.push(ptr::null());
    let environment: [*const libc::c_char; 1] = [ptr::null()];
    unsafe { libc::execve(argv[0], argv.as_ptr(), environment.as_ptr()) };
    about(&program[0].to_string_lossy(), &Error::last_os_error())
}

fn check(call: &str, result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 { Err(about(call, &Error::last_os_error())) } else { Ok(result) }
}

fn about(what: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("{what}: {error}"))
}
