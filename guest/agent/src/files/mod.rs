//! The Files service. Each request is carried out on a thread of its own that has taken on the user's authority, so the
//! kernel decides what the user may do; names are never resolved with the agent's own rights.
//!
//! ```text
//! service (async) ── channel of chunks ── authority (thread as the user) ─┬ read, write, list, remove, change, xattr
//!                                                                         └ watch ── tree ── inotify
//! ```

mod authority;
mod change;
mod directory;
mod durable;
mod inotify;
mod list;
mod path;
mod read;
mod remove;
mod service;
mod status;
mod tree;
mod watch;
mod write;
mod xattr;

pub use directory::Directory;
pub use service::Files;
