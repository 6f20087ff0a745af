//! The commands that are alive: their leader, or any process that it left behind. And the last ones that have ended, whose
//! output and exit can still be asked for.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::bytes::Bytes;
use tokio::sync::watch;
use tonic::Status;

use crate::cgroup::ProcessCgroup;
use crate::contract::Exited;
use crate::reaper::{Ended, Leader, Reaper};

use super::input::Input;
use super::output::Log;

const MAX_ALIVE: usize = 4096;
/// Ended commands whose id is still known, so that a Start which is sent again after a broken link doesn't run twice.
const REMEMBERED: usize = 1024;
/// Ended commands that can still be attached to, and what their output may take in all.
const KEPT: usize = 64;
const KEPT_BYTES: usize = 4 << 20;
/// A killed process can be stuck in the kernel, on a slow disk for example; the caller is told rather than kept waiting.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Of each command line, for List.
const ARGV_MAX_BYTES: usize = 4096;

pub struct Process {
    pub id: String,
    pub pid: i32,
    pub argv: Vec<Bytes>,
    pub cwd: Vec<u8>,
    pub label: Bytes,
    pub is_terminal: bool,
    /// Nanoseconds since 1970.
    pub started_ns: u64,
    /// Until its tree is gone.
    pub cgroup: Mutex<Option<Arc<ProcessCgroup>>>,
    pub leader: Leader,
    pub input: Input,
    pub stdout: Arc<Log>,
    pub stderr: Arc<Log>,
    /// How it ended, once all its output is in the logs; or why that can't be told.
    pub exited: watch::Sender<Option<Result<Exited, Status>>>,
}

impl Process {
    pub fn leader_is_alive(&self) -> bool {
        self.leader.borrow().is_none()
    }

    /// How the leader ended, once it has.
    pub async fn ended(&self) -> Option<Ended> {
        self.leader.clone().wait_for(Option::is_some).await.ok().and_then(|end| *end)
    }

    pub fn live_processes(&self) -> u32 {
        self.cgroup().map_or(self.leader_is_alive().into(), |cgroup| cgroup.count())
    }

    /// SIGKILL for the whole tree (for the leader, where there are no cgroups). Returns when it is gone.
    pub async fn kill(&self, reaper: &Reaper) -> io::Result<()> {
        let confirmed = async {
            match self.cgroup() {
                Some(cgroup) => cgroup.kill().await?,
                // One that has been collected is gone.
                None => drop(reaper.signal(self.pid, libc::SIGKILL)),
            }
            self.ended().await;
            Ok(())
        };
        tokio::time::timeout(KILL_LIMIT, confirmed).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    pub fn cgroup(&self) -> Option<Arc<ProcessCgroup>> {
        self.cgroup.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives back what only a living process needs.
    pub async fn release(&self) {
        self.cgroup.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.input.close().await;
    }

    fn held_bytes(&self) -> usize {
        self.stdout.held_bytes() + self.stderr.held_bytes()
    }
}

#[derive(Default)]
pub struct Table {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    alive: HashMap<String, Arc<Process>>,
    kept: VecDeque<Arc<Process>>,
    ended: VecDeque<String>,
}

impl Table {
    pub fn check_free(&self, id: &str) -> Result<(), Status> {
        let state = self.lock();
        if state.alive.contains_key(id) || state.ended.iter().any(|ended| ended == id) {
            return Err(Status::already_exists("process_id: was used before"));
        }
        if state.alive.len() >= MAX_ALIVE {
            return Err(Status::resource_exhausted("too many commands are alive"));
        }
        Ok(())
    }

    pub fn insert(&self, process: Arc<Process>) {
        self.lock().alive.insert(process.id.clone(), process);
    }

    /// `ran` is false for a command that never got to exec: its id may be tried again.
    pub fn remove(&self, id: &str, ran: bool) {
        let mut state = self.lock();
        let removed = state.alive.remove(id);
        if !ran {
            return;
        }
        if state.ended.len() >= REMEMBERED {
            state.ended.pop_front();
        }
        state.ended.push_back(id.to_owned());
        state.keep(removed);
    }

    /// Nobody is to see what has run so far.
    pub fn forget_ended(&self) {
        let mut state = self.lock();
        state.kept.clear();
        state.ended.clear();
    }

    pub fn find(&self, id: &str) -> Result<Arc<Process>, Status> {
        self.lock().alive.get(id).cloned().ok_or_else(not_found)
    }

    /// Also among those that have ended.
    pub fn find_kept(&self, id: &str) -> Result<Arc<Process>, Status> {
        let state = self.lock();
        let kept = || state.kept.iter().find(|process| process.id == id);
        state.alive.get(id).or_else(kept).cloned().ok_or_else(not_found)
    }

    /// The alive, and those that have ended.
    pub fn all(&self) -> Vec<Arc<Process>> {
        let state = self.lock();
        let mut all: Vec<_> = state.alive.values().chain(&state.kept).cloned().collect();
        all.sort_by(|a, b| (a.started_ns, &a.id).cmp(&(b.started_ns, &b.id)));
        all
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, process: Option<Arc<Process>>) {
        self.kept.extend(process);
        while self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        let mut held_bytes: usize = self.kept.iter().map(|process| process.held_bytes()).sum();
        for process in &self.kept {
            if held_bytes <= KEPT_BYTES {
                return;
            }
            held_bytes -= process.held_bytes();
            process.stdout.forget();
            process.stderr.forget();
        }
    }
}

fn not_found() -> Status {
    Status::not_found("no such process")
}

/// The beginning of a command line, copied so that it doesn't hold the request in memory.
pub fn shorten(argv: &[Bytes]) -> Vec<Bytes> {
    let mut left = ARGV_MAX_BYTES;
    argv.iter()
        .map_while(|arg| {
            let taken = &arg[..arg.len().min(left)];
            let room = left > 0;
            left -= taken.len();
            room.then(|| Bytes::copy_from_slice(taken))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: &str) -> Arc<Process> {
        let (_, leader) = watch::channel(None);
        let budget = Arc::default();
        Arc::new(Process {
            id: id.to_owned(),
            pid: 1,
            argv: Vec::new(),
            cwd: Vec::new(),
            label: Bytes::new(),
            is_terminal: false,
            started_ns: 0,
            cgroup: Mutex::default(),
            leader,
            input: Input::new(None),
            stdout: Log::new(&budget),
            stderr: Log::new(&budget),
            exited: watch::Sender::new(None),
        })
    }

    #[test]
    fn the_last_that_ended_are_kept() {
        let table = Table::default();
        for number in 0..=KEPT {
            table.insert(process(&number.to_string()));
            table.remove(&number.to_string(), true);
        }
        assert!(table.find_kept("0").is_err());
        assert!(table.find_kept("1").is_ok());
        assert!(table.find("1").is_err());
        assert_eq!(table.all().len(), KEPT);
    }

    #[test]
    fn what_has_ended_can_be_forgotten() {
        let table = Table::default();
        for id in ["ended", "alive"] {
            table.insert(process(id));
        }
        table.remove("ended", true);
        table.forget_ended();
        assert_eq!(table.all().iter().map(|process| process.id.as_str()).collect::<Vec<_>>(), ["alive"]);
        assert!(table.check_free("ended").is_ok() && table.check_free("alive").is_err());
    }

    #[test]
    fn an_id_runs_once() {
        let table = Table::default();
        table.insert(process("a"));
        assert!(table.check_free("a").is_err());
        table.remove("a", true);
        assert!(table.check_free("a").is_err());
        table.insert(process("b"));
        table.remove("b", false);
        assert!(table.check_free("b").is_ok());
    }

    #[test]
    fn memory_of_ended_ids_is_bounded() {
        let table = Table::default();
        for number in 0..=REMEMBERED {
            table.remove(&number.to_string(), true);
        }
        assert!(table.check_free("0").is_ok());
        assert!(table.check_free("1").is_err());
    }

    #[test]
    fn long_command_lines_are_cut() {
        let argv = [Bytes::from(vec![b'a'; 3000]), Bytes::from(vec![b'b'; 3000]), Bytes::from_static(b"c")];
        let short = shorten(&argv);
        assert_eq!(short.iter().map(Bytes::len).collect::<Vec<_>>(), [3000, 1096]);
    }
}
