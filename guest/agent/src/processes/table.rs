//! The commands that are alive: their leader, or any process that it left behind.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::bytes::Bytes;
use tonic::Status;

use crate::cgroup::ProcessCgroup;
use crate::reaper::{Ended, Leader};

const MAX_ALIVE: usize = 4096;
/// Ended commands whose id is still known, so that a Start which is sent again after a broken link doesn't run twice.
const REMEMBERED: usize = 1024;
/// Of each command line, for List.
const ARGV_MAX_BYTES: usize = 4096;

pub struct Process {
    pub id: String,
    pub pid: i32,
    pub argv: Vec<Bytes>,
    pub cgroup: Option<ProcessCgroup>,
    pub leader: Leader,
}

impl Process {
    pub fn leader_is_alive(&self) -> bool {
        self.leader.borrow().is_none()
    }

    /// How the leader ended, once it has.
    pub async fn ended(&self) -> Option<Ended> {
        self.leader.clone().wait_for(Option::is_some).await.ok().and_then(|end| *end)
    }
}

#[derive(Default)]
pub struct Table {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    alive: HashMap<String, Arc<Process>>,
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
        state.alive.remove(id);
        if ran {
            if state.ended.len() >= REMEMBERED {
                state.ended.pop_front();
            }
            state.ended.push_back(id.to_owned());
        }
    }

    pub fn find(&self, id: &str) -> Result<Arc<Process>, Status> {
        self.lock().alive.get(id).cloned().ok_or_else(|| Status::not_found("no such process"))
    }

    pub fn all(&self) -> Vec<Arc<Process>> {
        let mut all: Vec<_> = self.lock().alive.values().cloned().collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let (_, leader) = tokio::sync::watch::channel(None);
        Arc::new(Process { id: id.to_owned(), pid: 1, argv: Vec::new(), cgroup: None, leader })
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
