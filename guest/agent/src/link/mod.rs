//! The link: a virtio-serial port as a sequence of clean byte streams, as `guest/proto/LINK.md` says.

mod frame;
mod session;

pub use session::serve;
