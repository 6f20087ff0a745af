//! The agent's few lines of log: to the kernel log as PID 1 (which the kernel shows on the console), else to stderr.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

static KERNEL_LOG: OnceLock<File> = OnceLock::new();

/// From here on lines go to the kernel log.
pub fn to_kernel(log: File) {
    let _ = KERNEL_LOG.set(log);
}

pub fn info(line: &str) {
    write(6, line);
}

/// Shown on the console also with `quiet`.
pub fn error(line: &str) {
    write(3, line);
}

fn write(level: u8, line: &str) {
    // A log that can't be written has nobody to tell.
    let _ = match KERNEL_LOG.get() {
        Some(mut log) => log.write_all(format!("<{level}>space-agent: {line}\n").as_bytes()),
        None => std::io::stderr().write_all(format!("space-agent: {line}\n").as_bytes()),
    };
}
