//! Threads that act as a user of the guest. On Linux credentials belong to a thread; only the C library spreads a change to
//! all of them, so these are raw system calls. The change is never taken back: the thread ends with its one request.

use std::io;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tonic::Status;

use crate::errno::{check, status};
use crate::users::User;

const STACK_BYTES: usize = 128 << 10;

#[derive(Clone)]
pub struct Authority {
    threads: Arc<Semaphore>,
    /// Whether a request that finds no thread free waits for one.
    patient: bool,
}

impl Authority {
    /// More requests than there are threads wait. A thread can be held up for as long as a file system of guest root pleases.
    pub fn with_threads(count: usize) -> Self {
        Self { threads: Arc::new(Semaphore::new(count)), patient: true }
    }

    /// For work that lasts: what finds no thread free is refused.
    pub fn with_places(count: usize) -> Self {
        Self { threads: Arc::new(Semaphore::new(count)), patient: false }
    }

    /// Runs `work` as the user and returns its result.
    pub async fn run<T: Send + 'static>(
        &self,
        user: &User,
        work: impl FnOnce(&User) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let (sender, receiver) = oneshot::channel();
        self.start(user, |result| drop(sender.send(result)), work).await?;
        receiver.await.unwrap_or_else(|_| Err(Status::internal("the file thread ended early")))
    }

    /// Runs `work` as the user with a channel for its results, which ends with an error if `work` does.
    pub async fn stream<T: Send + 'static>(
        &self,
        user: &User,
        queued: usize,
        work: impl FnOnce(&User, &mpsc::Sender<Result<T, Status>>) -> Result<(), Status> + Send + 'static,
    ) -> Result<mpsc::Receiver<Result<T, Status>>, Status> {
        let (sender, receiver) = mpsc::channel(queued);
        let results = sender.clone();
        let end = move |result: Result<(), Status>| {
            if let Err(status) = result {
                // A reader that is gone needs no error.
                let _ = sender.blocking_send(Err(status));
            }
        };
        self.start(user, end, move |user| work(user, &results)).await?;
        Ok(receiver)
    }

    async fn start<T>(
        &self,
        user: &User,
        end: impl FnOnce(Result<T, Status>) + Send + 'static,
        work: impl FnOnce(&User) -> Result<T, Status> + Send + 'static,
    ) -> Result<(), Status> {
        let threads = self.threads.clone();
        let turn: OwnedSemaphorePermit = if self.patient {
            threads.acquire_owned().await.map_err(|_| Status::unavailable("the agent is stopping"))?
        } else {
            threads.try_acquire_owned().map_err(|_| Status::resource_exhausted("EMFILE: too many are open already"))?
        };
        let user = user.clone();
        let body = move || {
            let _turn = turn;
            end(assume(&user).map_err(|e| status(&e, "become the user")).and_then(|()| work(&user)));
        };
        let thread = std::thread::Builder::new().name("files".to_owned()).stack_size(STACK_BYTES).spawn(body);
        thread.map(drop).map_err(|e| status(&e, "thread"))
    }
}

/// For the calling thread, for ever.
fn assume(user: &User) -> io::Result<()> {
    let own = unsafe { libc::geteuid() };
    // An agent that is not root can only act as itself.
    if own != 0 && own == user.uid {
        return Ok(());
    }
    let (uid, gid) = (user.uid, user.gid);
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()))?;
        check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
    }
    Ok(())
}
