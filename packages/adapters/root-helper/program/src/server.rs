//! Who is listened to, and how much. One user connects; a line that is too long, or is not completed in time, ends the
//! connection; what comes beyond the limits waits.
//!
//! The helper ends when its standard input ends: whoever supervises it holds the other end.

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::failure::{About, Failure, Result};
use crate::files::{peer_of, provide_folder};
use crate::names::number;
use crate::verbs::{Helper, Verb};
use crate::wire::{quoted, readable_by, receive};

const LONGEST_LINE: usize = 512;
/// Of a request whose first byte has come.
const LINE_LIMIT: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: usize = 8;
/// At once on one connection; the next one waits.
const MAX_RUNNING: usize = 64;
const THREAD_STACK_BYTES: usize = 256 * 1024;
const WRITE_LIMIT: Duration = Duration::from_secs(5);
const FAR_AWAY: Duration = Duration::from_secs(3600);

pub fn serve(helper: &Arc<Helper>) -> Result<()> {
    let listener = listen(&helper.config)?;
    // Said to whoever started us: from here on it can be connected to.
    println!("ready");
    thread::spawn(|| {
        let _ = std::io::stdin().lock().read_to_end(&mut vec![]);
        std::process::exit(0)
    });
    let connections = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let is_node = peer_of(stream.as_fd()).is_ok_and(|peer| peer.uid == helper.config.node_uid);
        if !is_node || connections.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            continue;
        }
        let (helper, connections) = (Arc::clone(helper), Arc::clone(&connections));
        connections.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(connections);
        spawn(move || {
            let _counted = counted;
            attend(&helper, stream);
        });
    }
    Ok(())
}

fn listen(config: &Config) -> Result<UnixListener> {
    let path = &config.socket;
    if let Some(folder) = path.parent() {
        provide_folder(folder, config.node_gid, 0o750)?;
    }
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path).about(path.display())?;
    std::os::unix::fs::chown(path, Some(config.node_uid), Some(config.node_gid)).about(path.display())?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).about(path.display())?;
    Ok(listener)
}

/// Without a thread, what was handed in is dropped, and with it the connection: the caller sees that it ends.
fn spawn(work: impl FnOnce() + Send + 'static) -> bool {
    thread::Builder::new().stack_size(THREAD_STACK_BYTES).spawn(work).is_ok()
}

/// One of the connections that are open.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What one connection has under way.
struct Connection {
    stream: UnixStream,
    writing: Mutex<()>,
    running: Mutex<usize>,
    fewer: Condvar,
}

fn attend(helper: &Arc<Helper>, stream: UnixStream) {
    let _ = stream.set_write_timeout(Some(WRITE_LIMIT));
    let connection =
        Arc::new(Connection { stream, writing: Mutex::new(()), running: Mutex::new(0), fewer: Condvar::new() });
    let mut line = vec![];
    let mut descriptors = VecDeque::new();
    let mut begun = Instant::now();
    loop {
        let limit = if line.is_empty() { FAR_AWAY } else { LINE_LIMIT };
        match readable_by(&connection.stream, begun + limit) {
            Ok(true) => {}
            Ok(false) if line.is_empty() => {
                begun = Instant::now();
                continue;
            }
            _ => return connection.end(),
        }
        let mut buffer = [0; LONGEST_LINE];
        let Ok(received) = receive(&connection.stream, &mut buffer) else { return connection.end() };
        if received.bytes == 0 {
            return connection.end();
        }
        if line.is_empty() {
            begun = Instant::now();
        }
        descriptors.extend(received.descriptors);
        for byte in &buffer[..received.bytes] {
            if *byte == b'\n' {
                if !connection.take(helper, &std::mem::take(&mut line), &mut descriptors) {
                    return connection.end();
                }
                continue;
            }
            line.push(*byte);
            if line.len() > LONGEST_LINE {
                return connection.end();
            }
        }
        // Those that no request has taken were sent for nothing.
        if line.is_empty() || descriptors.len() > MAX_RUNNING {
            descriptors.clear();
        }
    }
}

impl Connection {
    fn end(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// False when it makes no sense to go on listening.
    fn take(self: &Arc<Self>, helper: &Arc<Helper>, line: &[u8], descriptors: &mut VecDeque<OwnedFd>) -> bool {
        let text = std::str::from_utf8(line).unwrap_or_default();
        let words: Vec<_> = text.split(' ').collect();
        let Some((id, words)) = words.split_first() else { return false };
        // Who asked is not known: there is nobody to answer.
        let Ok(id) = number::<u32>(id) else { return false };
        let verb = Verb::parse(words);
        // The kernel may hand over a descriptor with the bytes before those that it was sent with.
        let takes = verb.as_ref().is_ok_and(Verb::takes_descriptor);
        let descriptor = if takes { descriptors.pop_front() } else { None };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while *running >= MAX_RUNNING {
            running = self.fewer.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
        drop(running);
        let (connection, helper) = (Arc::clone(self), Arc::clone(helper));
        spawn(move || {
            connection.answer(id, verb.and_then(|verb| helper.run(verb, descriptor)));
            *connection.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            connection.fewer.notify_one();
        })
    }

    fn answer(&self, id: u32, done: Result<String>) {
        let answer = match done {
            Ok(value) => format!("{{\"id\":{id},\"ok\":{value}}}\n"),
            Err(Failure { code, detail }) => {
                format!("{{\"id\":{id},\"error\":{{\"code\":\"{code}\",\"detail\":{}}}}}\n", quoted(&detail))
            }
        };
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if (&self.stream).write_all(answer.as_bytes()).is_err() {
            self.end();
        }
    }
}
