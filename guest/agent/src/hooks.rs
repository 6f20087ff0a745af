//! Hooks: what the guest wants done each time its machine goes on as somebody, after a resume, a fork, a rewind or an import. They are
//! executables in a folder of the guest, run as root, in the order of their names, one after the other.
//!
//! They are programs of the guest like any other, so they begin with the thaw, beside all others, when clock, entropy and names are
//! right; a resume waits for none of them. One that hangs is killed with all that it has started, and the next begins. Their
//! output goes nowhere, and what became of one that failed is in the log.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::{Code, Request, Status};

use crate::contract::processes_server::Processes as _;
use crate::contract::{AssumeIdentityRequest, StartRequest, exited, process_event};
use crate::log;
use crate::processes::{FROZEN, Processes};

pub const FOLDER: &str = "/etc/space/hooks.d";
const MAX_HOOKS: usize = 16;
/// What else lies in the folder is passed over.
const MAX_ENTRIES: usize = 256;
const TIMEOUT_MS: u64 = 10_000;
/// While a snapshot has the user's processes stand still, none is started. By attempts rather than a time: in a copy the clock has
/// jumped.
const FROZEN_RETRY: Duration = Duration::from_millis(25);
const FROZEN_ATTEMPTS: u32 = 2_400;

/// Who the machine goes on as.
#[derive(Clone)]
struct Occasion {
    sandbox: String,
    generation: u64,
    at_ns: u64,
}

#[derive(Clone)]
pub struct Hooks {
    folder: Option<PathBuf>,
    processes: Processes,
    /// At the next thaw.
    due: Slot,
    next: Slot,
    running: Arc<AtomicBool>,
}

impl Hooks {
    pub fn new(folder: Option<PathBuf>, processes: Processes) -> Self {
        Self { folder, processes, due: Arc::default(), next: Arc::default(), running: Arc::default() }
    }

    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// They are due at the next thaw.
    pub fn due(&self, identity: &AssumeIdentityRequest) {
        let AssumeIdentityRequest { sandbox_id: sandbox, generation, wall_clock_ns: at_ns, .. } = identity;
        let occasion = Occasion { sandbox: sandbox.clone(), generation: *generation, at_ns: *at_ns };
        put(&self.due, occasion);
    }

    /// Begins those that are due, and waits for none. A snapshot of a running machine makes none due. Where those of the time before
    /// are still at work, as in a fork that was made meanwhile, these come after them.
    pub fn begin(&self) {
        let Some(folder) = self.folder.clone() else { return };
        let Some(occasion) = take(&self.due) else { return };
        // Most machines have none, and a thread is not started to find that out.
        if fs::symlink_metadata(&folder).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return;
        }
        put(&self.next, occasion);
        if self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (processes, next, running) = (self.processes.clone(), self.next.clone(), self.running.clone());
        tokio::spawn(async move {
            while let Some(occasion) = take(&next) {
                let folder = folder.clone();
                // A file system of the guest may not answer; then one thread waits for it.
                let found = tokio::task::spawn_blocking(move || find(&folder)).await.unwrap_or_default();
                for (index, hook) in found.into_iter().enumerate() {
                    run(&processes, &hook, index, &occasion).await;
                }
            }
            running.store(false, Ordering::Release);
        });
    }
}

type Slot = Arc<Mutex<Option<Occasion>>>;

fn take(slot: &Slot) -> Option<Occasion> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn put(slot: &Slot, occasion: Occasion) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(occasion);
}

fn find(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.take(MAX_ENTRIES).flatten().map(|entry| entry.path()).collect();
    found.retain(|path| is_hook(path));
    found.sort();
    found.truncate(MAX_HOOKS);
    found
}

/// Names as run-parts takes them: no editor's backup is run.
fn is_hook(path: &Path) -> bool {
    let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let is_plain = name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-' || *b == b'_');
    is_plain && fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

async fn run(processes: &Processes, hook: &Path, index: usize, occasion: &Occasion) {
    let Occasion { sandbox, generation, at_ns } = occasion;
    let env = [("SPACE_SANDBOX", sandbox.clone()), ("SPACE_GENERATION", generation.to_string())];
    let request = StartRequest {
        process_id: format!("hook-{at_ns}-{index}"),
        argv: vec![hook.as_os_str().to_owned().into_vec().into()],
        env: env.into_iter().map(|(name, value)| (name.to_owned(), value.into_bytes().into())).collect(),
        cwd: b"/".as_slice().into(),
        user: "root".to_owned(),
        timeout_ms: TIMEOUT_MS,
        ..StartRequest::default()
    };
    let ended = match once_thawed(|| processes.start(Request::new(request.clone()))).await {
        Ok(stream) => end_of(stream.into_inner()).await,
        Err(status) => Err(status.message().to_owned()),
    };
    if let Err(why) = ended {
        log::error(&format!("hook {}: {why}", hook.display()));
    }
}

/// The same start again and again while it is refused because of a snapshot.
async fn once_thawed<T, F: Future<Output = Result<T, Status>>>(mut start: impl FnMut() -> F) -> Result<T, Status> {
    for _ in 0..FROZEN_ATTEMPTS {
        match start().await {
            Err(status) if status.code() == Code::FailedPrecondition && status.message() == FROZEN => {
                tokio::time::sleep(FROZEN_RETRY).await;
            }
            other => return other,
        }
    }
    Err(Status::failed_precondition(FROZEN))
}

/// Reads on to the end, so that it waits for no reader.
async fn end_of(
    mut events: impl tokio_stream::Stream<Item = Result<crate::contract::ProcessEvent, tonic::Status>> + Unpin,
) -> Result<(), String> {
    while let Some(event) = events.next().await {
        match event.map_err(|status| status.message().to_owned())?.event {
            Some(process_event::Event::Exited(exited)) if exited.end == Some(exited::End::Code(0)) => return Ok(()),
            Some(process_event::Event::Exited(exited)) => return Err(format!("{:?}", exited.end)),
            _ => {}
        }
    }
    Err("its end is not known".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hook_that_meets_a_snapshot_begins_after_it() {
        let mut asked = 0;
        let started = once_thawed(|| {
            asked += 1;
            std::future::ready(if asked < 3 { Err(Status::failed_precondition(FROZEN)) } else { Ok(asked) })
        });
        assert_eq!(started.await.unwrap(), 3);
        let mut asked = 0;
        let refused = once_thawed(|| {
            asked += 1;
            std::future::ready(Err::<(), _>(Status::failed_precondition("else")))
        });
        assert_eq!((refused.await.unwrap_err().message(), asked), ("else", 1));
    }

    #[test]
    fn executables_are_found_in_the_order_of_their_names_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("space-agent-hooks-{}", std::process::id()));
        assert!(find(&folder).is_empty());
        fs::create_dir_all(folder.join("20-folder")).unwrap();
        for (name, mode) in [("30-c", 0o755), ("10-a", 0o700), ("15-plain", 0o644), ("10-a.bak", 0o755)] {
            fs::write(folder.join(name), "#!/bin/sh\n").unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(find(&folder), [folder.join("10-a"), folder.join("30-c")]);
        for number in 0..2 * MAX_HOOKS {
            fs::copy(folder.join("10-a"), folder.join(format!("40-{number}"))).unwrap();
        }
        assert_eq!(find(&folder).len(), MAX_HOOKS);
        fs::remove_dir_all(&folder).unwrap();
    }
}
