//! The end of one output stream, kept in memory: the last bytes, each known by its position in the stream.
//!
//! All rings of living processes share one budget. As long as it is not used up, each ring may hold `RING_MAX_BYTES`; beyond
//! it, each may hold its fair share. So what all hold together is at most twice the budget, however many processes print.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prost::bytes::Bytes;

pub const RING_MAX_BYTES: usize = 1 << 20;
const BUDGET_BYTES: usize = 8 << 20;
const SMALLEST_BYTES: usize = 4 << 10;

#[derive(Default)]
pub struct Budget {
    held_bytes: AtomicUsize,
    rings: AtomicUsize,
}

impl Budget {
    /// What one ring may hold now.
    fn share(&self) -> usize {
        if self.held_bytes.load(Ordering::Relaxed) <= BUDGET_BYTES {
            return RING_MAX_BYTES;
        }
        (BUDGET_BYTES / self.rings.load(Ordering::Relaxed).max(1)).clamp(SMALLEST_BYTES, RING_MAX_BYTES)
    }
}

pub struct Ring {
    bytes: VecDeque<u8>,
    /// Position behind the last byte.
    end: u64,
    /// None once the process has ended: what is left is accounted for by the table.
    budget: Option<Arc<Budget>>,
}

impl Ring {
    pub fn new(budget: Arc<Budget>) -> Self {
        budget.rings.fetch_add(1, Ordering::Relaxed);
        Self { bytes: VecDeque::new(), end: 0, budget: Some(budget) }
    }

    pub fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub fn share(&self) -> usize {
        self.budget.as_ref().map_or(RING_MAX_BYTES, |budget| budget.share())
    }

    /// Drops the oldest for the new, beyond its share; but nothing from `needed` on.
    pub fn push(&mut self, data: &[u8], needed: u64) {
        let share = self.share();
        let before = self.bytes.capacity();
        let excess = (self.bytes.len() + data.len()).saturating_sub(share);
        let droppable = needed.saturating_sub(self.start()).min(self.bytes.len() as u64) as usize;
        self.bytes.drain(..excess.min(droppable));
        let length = self.bytes.len() + data.len();
        if share < RING_MAX_BYTES {
            self.bytes.shrink_to(length.max(share));
        }
        if length > self.bytes.capacity() {
            // Doubled as usual, but never beyond what it may hold.
            let capacity = (2 * self.bytes.capacity()).clamp(SMALLEST_BYTES.min(share), share).max(length);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend(data);
        self.end += data.len() as u64;
        self.account(before);
    }

    /// At most `max` bytes from a position on that is not before the start.
    pub fn read(&self, from: u64, max: usize) -> Bytes {
        let skip = ((from - self.start()) as usize).min(self.bytes.len());
        let length = (self.bytes.len() - skip).min(max);
        let (front, back) = self.bytes.as_slices();
        if skip >= front.len() {
            return Bytes::copy_from_slice(&back[skip - front.len()..][..length]);
        }
        let first = &front[skip..front.len().min(skip + length)];
        let mut joined = Vec::with_capacity(length);
        joined.extend_from_slice(first);
        joined.extend_from_slice(&back[..length - first.len()]);
        joined.into()
    }

    /// Nothing will be added: memory that isn't needed is given back, and the share to those that still print.
    pub fn finish(&mut self) {
        let before = self.bytes.capacity();
        self.bytes.shrink_to_fit();
        self.account(before);
        self.leave_budget();
    }

    /// Forgets what lies before a position.
    pub fn forget(&mut self, before: u64) {
        let count = before.saturating_sub(self.start()).min(self.bytes.len() as u64) as usize;
        let capacity = self.bytes.capacity();
        self.bytes.drain(..count);
        self.bytes.shrink_to_fit();
        self.account(capacity);
    }

    fn account(&self, before: usize) {
        if let Some(budget) = &self.budget {
            let now = self.bytes.capacity();
            budget.held_bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    fn leave_budget(&mut self) {
        if let Some(budget) = self.budget.take() {
            budget.held_bytes.fetch_sub(self.bytes.capacity(), Ordering::Relaxed);
            budget.rings.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.leave_budget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    #[test]
    fn keeps_the_last_bytes_at_their_positions() {
        let mut ring = Ring::new(Arc::default());
        let mut all = Vec::new();
        for number in 0..400_000u32 {
            let line = format!("{number}\n");
            ring.push(line.as_bytes(), ALL);
            all.extend_from_slice(line.as_bytes());
        }
        assert_eq!(ring.end(), all.len() as u64);
        assert_eq!(ring.end() - ring.start(), RING_MAX_BYTES as u64);
        assert!(ring.held_bytes() <= RING_MAX_BYTES);
        let mut from = ring.start();
        while from < ring.end() {
            let part = ring.read(from, 30_011);
            assert_eq!(part, all[from as usize..][..part.len()]);
            from += part.len() as u64;
        }
        assert!(ring.read(ring.end(), 10).is_empty());
    }

    #[test]
    fn drops_nothing_that_is_needed() {
        let mut ring = Ring::new(Arc::default());
        ring.push(b"needed", ALL);
        ring.push(&vec![0; RING_MAX_BYTES], 0);
        assert_eq!(ring.read(0, 6), &b"needed"[..]);
        ring.push(b"x", 3);
        assert_eq!(ring.start(), 3);
    }

    #[test]
    fn all_rings_together_hold_at_most_twice_the_budget() {
        let budget = Arc::new(Budget::default());
        let mut rings: Vec<Ring> = (0..200).map(|_| Ring::new(budget.clone())).collect();
        for _ in 0..60 {
            for ring in &mut rings {
                ring.push(&[7; 32 << 10], ALL);
            }
        }
        let held: usize = rings.iter().map(Ring::held_bytes).sum();
        assert_eq!(held, budget.held_bytes.load(Ordering::Relaxed));
        assert!(held <= 2 * BUDGET_BYTES, "{held}");
        rings[0].finish();
        drop(rings);
        assert_eq!((budget.held_bytes.load(Ordering::Relaxed), budget.rings.load(Ordering::Relaxed)), (0, 0));
        assert_eq!(Ring::new(budget).share(), RING_MAX_BYTES);
    }
}
