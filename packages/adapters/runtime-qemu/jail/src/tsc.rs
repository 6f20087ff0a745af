//! The rate of the TSC, which a guest under emulation is told: measured, since what a CPU calls itself is a nominal rate,
//! up to thousands of ppm off, and a guest's clock would drift by as much.

use std::arch::x86_64::_rdtsc;
use std::io::{Error, Result};
use std::time::Duration;

/// An error of 100 ns at either end is 1 ppm of it.
const SPAN: Duration = Duration::from_millis(200);
/// Both clocks are read in a row so often, to find once when nothing came in between.
const TRIES: usize = 32;

struct Reading {
    ticks: u64,
    ns: u64,
}

pub fn khz() -> Result<u64> {
    let first = read()?;
    std::thread::sleep(SPAN);
    let last = read()?;
    let khz = u128::from(last.ticks - first.ticks) * 1_000_000 / u128::from(last.ns - first.ns);
    u64::try_from(khz).map_err(Error::other)
}

fn read() -> Result<Reading> {
    let mut best: Option<(u64, Reading)> = None;
    for _ in 0..TRIES {
        let before = unsafe { _rdtsc() };
        let ns = raw_clock_ns()?;
        let width = unsafe { _rdtsc() } - before;
        if best.as_ref().is_none_or(|(narrowest, _)| width < *narrowest) {
            best = Some((width, Reading { ticks: before + width / 2, ns }));
        }
    }
    best.map(|(_, reading)| reading).ok_or_else(|| Error::other("the clocks could not be read"))
}

/// As the hardware counts, whatever time servers say.
fn raw_clock_ns() -> Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) } < 0 {
        return Err(Error::last_os_error());
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
