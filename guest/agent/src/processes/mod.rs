//! The Processes service. A process belongs to the agent, not to the stream that started it.
//!
//! ```text
//! Start ─► command (what to run, as whom) ─► spawn (clone, exec) ─► life (one task per process)
//!                                                                     ├─ output: channels ─► logs, with back-pressure
//!                                              reaper ── exit code ───┤
//!                                              cgroup ── empty ───────┘─► kept in the table for late readers
//! Start, Attach ─► attach (one task per stream) ─► readers of the logs
//! WriteInput ─► input
//! ```

mod attach;
mod channel;
mod child;
mod command;
mod input;
mod life;
mod output;
mod ring;
mod service;
mod spawn;
mod table;

pub use service::{FROZEN, Processes};
pub use spawn::Anchors;
