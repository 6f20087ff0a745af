//! Ends a program that takes all memory before the kernel would. At its limit the kernel ends one only when nothing can be
//! reclaimed any more, and until then it drops and reads again the pages of every running program: the guest can stand nearly
//! still for minutes. The kernel tells of such stalls (PSI), so that nothing is looked at while there are none.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::time::{Instant, sleep};

use crate::cgroup::Cgroups;
use crate::descriptor::watch;
use crate::log;

/// Told when all user processes together stood still for want of memory for half of a second; at most once a second.
const TRIGGER: &[u8] = b"full 500000 1000000\0";
/// So many stalls within so long: a single one may be over by itself.
const STALLS: usize = 2;
const STALLS_WITHIN: Duration = Duration::from_secs(3);
/// Below this part of the limit there is room for the code of what runs: it is files that are read, and that is only slow.
const HELD_PERCENT: u64 = 85;
/// A program with less than this part of its command's memory has many like it: then the command is ended.
const ALONE_PERCENT: u64 = 25;
/// Until the memory of one that is killed is free again: it still counts before, and another would be ended in vain.
const SETTLE: Duration = Duration::from_secs(2);

/// Memory of the user processes that cannot be dropped and read again.
#[derive(Clone, Copy)]
pub struct Memory {
    pub held_bytes: u64,
    pub limit_bytes: u64,
}

/// Goes on for as long as the machine does; returns when the kernel cannot tell.
pub async fn relieve(cgroups: Arc<Cgroups>) {
    if let Err(error) = run(&cgroups).await {
        log::error(&format!("memory pressure is not watched: {error}"));
    }
}

async fn run(cgroups: &Cgroups) -> io::Result<()> {
    let mut file: File = cgroups.open_pressure()?;
    file.write_all(TRIGGER)?;
    let news = watch(file, Interest::PRIORITY)?;
    let mut stalls = Stalls::default();
    loop {
        news.ready(Interest::PRIORITY).await?.clear_ready();
        if !stalls.go_on(Instant::now()) {
            continue;
        }
        let relieved = cgroups.memory().and_then(|memory| match is_short(memory) {
            true => cgroups.end_largest(ends_command),
            false => Ok(()),
        });
        if let Err(error) = relieved {
            log::error(&format!("memory: {error}"));
        }
        sleep(SETTLE).await;
    }
}

/// The last stalls, by their times.
#[derive(Default)]
struct Stalls(VecDeque<Instant>);

impl Stalls {
    /// Takes one in; whether it is time to act, after which they count from none again.
    fn go_on(&mut self, now: Instant) -> bool {
        self.0.push_back(now);
        self.0.retain(|at| now.duration_since(*at) <= STALLS_WITHIN);
        if self.0.len() < STALLS {
            return false;
        }
        self.0.clear();
        true
    }
}

fn is_short(Memory { held_bytes, limit_bytes }: Memory) -> bool {
    held_bytes >= limit_bytes / 100 * HELD_PERCENT
}

/// Whether all of a command is to be ended, or its largest process.
fn ends_command(largest_bytes: u64, command_bytes: u64) -> bool {
    largest_bytes < command_bytes / 100 * ALONE_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_that_cannot_be_dropped_counts() {
        assert!(is_short(Memory { held_bytes: 380 << 20, limit_bytes: 400 << 20 }));
        assert!(!is_short(Memory { held_bytes: 330 << 20, limit_bytes: 400 << 20 }));
        assert!(!is_short(Memory { held_bytes: 200 << 20, limit_bytes: u64::MAX }));
    }

    #[test]
    fn stalls_count_while_they_go_on() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut stalls = Stalls::default();
        assert_eq!([0, 1, 2, 3].map(|s| stalls.go_on(at(s))), [false, true, false, true]);
        assert_eq!([10, 14, 18].map(|s| stalls.go_on(at(s))), [false; 3]);
    }

    #[test]
    fn a_command_of_many_small_programs_is_ended_whole() {
        assert!(!ends_command(300 << 20, 310 << 20));
        assert!(ends_command(1 << 20, 310 << 20));
    }
}
