//! A process is known by its pid and its start time: pids are used again, the pair is not. Nothing here signals a pid
//! whose start time it has not just read.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};
use crate::wire::readable_by;

const KILL_LIMIT: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub pid: i32,
    /// Clock ticks since boot: field 22 of /proc/pid/stat.
    pub start_time: u64,
}

impl Identity {
    /// As the launcher writes it: `{"pid":4711,"startTime":"815"}`.
    pub fn parse(text: &str) -> Option<Self> {
        let (pid, start_time) = text.trim().strip_prefix("{\"pid\":")?.split_once(",\"startTime\":\"")?;
        let identity = Self { pid: pid.parse().ok()?, start_time: start_time.strip_suffix("\"}")?.parse().ok()? };
        (identity.pid > 1).then_some(identity)
    }

    /// The process that has the pid now.
    pub fn of(pid: i32) -> Result<Option<Self>> {
        Ok(read_stat(pid)?.map(|stat| Self { pid, start_time: stat.start_time }))
    }

    /// A leader that ended is a zombie while its other threads still run and hold memory and files.
    pub fn is_alive(&self) -> Result<bool> {
        let Some(stat) = read_stat(self.pid)? else { return Ok(false) };
        if stat.start_time != self.start_time {
            return Ok(false);
        }
        Ok(stat.state != 'Z' || fs::read_dir(format!("/proc/{}/task", self.pid)).is_ok_and(|tasks| tasks.count() > 1))
    }

    /// SIGKILL, then waits until it is proved dead. The kernel tells at once when it is; whether it was this one is read each time.
    pub fn kill(&self) -> Result<()> {
        let deadline = Instant::now() + KILL_LIMIT;
        // Opened before its start time is read: when that is right, it is the process that this leads to, whatever becomes of its pid.
        let process = open_process(self.pid);
        let mut has_ended = false;
        let mut pause = Duration::from_micros(500);
        while self.is_alive()? {
            send_kill(process.as_ref(), self.pid);
            if Instant::now() > deadline {
                return Err(Failure::unavailable(format!("process {} does not die", self.pid)));
            }
            match &process {
                // Told once, it is looked at again and again: it may be another one of that number that has ended.
                Some(end) if !has_ended => {
                    has_ended = readable_by(end, Instant::now() + LONGEST_PAUSE).unwrap_or(true);
                }
                _ => {
                    sleep(pause);
                    pause = (pause * 3 / 2).min(LONGEST_PAUSE);
                }
            }
        }
        Ok(())
    }
}

/// Becomes readable when the process, with all its threads, has ended. None: there is none, or the kernel is too old.
fn open_process(pid: i32) -> Option<OwnedFd> {
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    i32::try_from(fd).ok().filter(|fd| *fd >= 0).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn send_kill(process: Option<&OwnedFd>, pid: i32) {
    match process {
        Some(process) => {
            let none = std::ptr::null::<libc::siginfo_t>();
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGKILL, none, 0) };
        }
        None => {
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

struct Stat {
    state: char,
    start_time: u64,
}

fn read_stat(pid: i32) -> Result<Option<Stat>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => parse_stat(&text).map(Some).ok_or_else(|| Failure::new("internal", "/proc/pid/stat is unclear")),
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The name, in parentheses, may hold anything: fields are counted from the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<_> = text.rsplit_once(") ")?.1.split(' ').collect();
    Some(Stat { state: fields.first()?.chars().next()?, start_time: fields.get(19)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_fields() {
        let numbers = (0..30).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let stat = parse_stat(&format!("12 (a) Z 9 (b) S {numbers}")).unwrap();
        assert_eq!((stat.state, stat.start_time), ('S', 18));
    }

    #[test]
    fn this_process_lives_and_one_of_another_start_time_does_not() {
        let pid = std::process::id() as i32;
        let start_time = read_stat(pid).unwrap().unwrap().start_time;
        assert!(Identity { pid, start_time }.is_alive().unwrap());
        let other = Identity { pid, start_time: start_time + 1 };
        assert!(!other.is_alive().unwrap());
        other.kill().unwrap();
    }

    #[test]
    fn a_process_that_is_killed_is_dead_when_that_returns() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let identity = Identity { pid, start_time: read_stat(pid).unwrap().unwrap().start_time };
        assert!(identity.is_alive().unwrap());
        let started = Instant::now();
        identity.kill().unwrap();
        assert!(!identity.is_alive().unwrap());
        assert!(started.elapsed() < KILL_LIMIT / 2);
        assert!(!child.wait().unwrap().success());
        identity.kill().unwrap();
    }

    #[test]
    fn only_the_record_of_a_launcher_is_read() {
        let record = "{\"pid\":4711,\"startTime\":\"815\"}\n";
        assert_eq!(Identity::parse(record), Some(Identity { pid: 4711, start_time: 815 }));
        for text in [
            "",
            "{}",
            "{\"pid\":1,\"startTime\":\"1\"}",
            "{\"pid\":-2,\"startTime\":\"1\"}",
            "{\"pid\":2,\"startTime\":1}",
        ] {
            assert_eq!(Identity::parse(text), None, "{text}");
        }
    }
}
