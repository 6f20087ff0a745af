//! The Processes service. A process belongs to the agent, not to the stream that started it.
//!
//! ```text
//! Start ─► command (what to run, as whom) ─► spawn (clone, exec) ─► life (one task per process)
//!                                                                     ├─ output: pipes ─► stream, with back-pressure
//!                                              reaper ── exit code ───┤
//!                                              cgroup ── empty ───────┘─► removed from the table
//! ```

mod command;
mod life;
mod output;
mod service;
mod spawn;
mod table;

pub use service::Processes;
pub use spawn::Anchors;
