//! Which address stands for which name. The table is bounded: the name that was used longest ago makes room for a new one. Its
//! address then stands for nothing, and is given to another name only when all others have had their turn, so that a program
//! that kept it for a while meets no stranger.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::plan::{FIRST_NAME, LAST_NAME};

/// Of at most 253 bytes each.
const MAX_NAMES: usize = 4096;

pub struct Names {
    by_name: HashMap<Arc<str>, u32>,
    by_index: HashMap<u32, Entry>,
    /// When a name was used, by a counter.
    by_use: BTreeMap<u64, u32>,
    uses: u64,
    next: u32,
}

struct Entry {
    name: Arc<str>,
    used: u64,
}

impl Default for Names {
    fn default() -> Self {
        Self { by_name: HashMap::new(), by_index: HashMap::new(), by_use: BTreeMap::new(), uses: 0, next: FIRST_NAME }
    }
}

impl Names {
    /// The index of the name's address; a new one where it has none.
    pub fn index_of(&mut self, name: &str) -> u32 {
        if let Some(index) = self.by_name.get(name).copied() {
            self.touch(index);
            return index;
        }
        if self.by_name.len() >= MAX_NAMES {
            self.drop_oldest();
        }
        let index = self.free_index();
        let name: Arc<str> = name.into();
        self.by_name.insert(name.clone(), index);
        self.by_index.insert(index, Entry { name, used: 0 });
        self.touch(index);
        index
    }

    /// The name that an address stands for now.
    pub fn name_at(&mut self, index: u32) -> Option<Arc<str>> {
        self.touch(index);
        self.by_index.get(&index).map(|entry| entry.name.clone())
    }

    fn touch(&mut self, index: u32) {
        if let Some(entry) = self.by_index.get_mut(&index) {
            self.by_use.remove(&entry.used);
            self.uses += 1;
            entry.used = self.uses;
            self.by_use.insert(self.uses, index);
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, index)) = self.by_use.pop_first() {
            if let Some(entry) = self.by_index.remove(&index) {
                self.by_name.remove(&entry.name);
            }
        }
    }

    /// There are many more addresses than names.
    fn free_index(&mut self) -> u32 {
        loop {
            let index = self.next;
            self.next = if index == LAST_NAME { FIRST_NAME } else { index + 1 };
            if !self.by_index.contains_key(&index) {
                return index;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address_while_it_is_used() {
        let mut names = Names::default();
        let first = names.index_of("first.example");
        assert_ne!(names.index_of("second.example"), first);
        assert_eq!(names.index_of("first.example"), first);
        assert_eq!(names.name_at(first).as_deref(), Some("first.example"));
        assert_eq!(names.name_at(first + 100), None);
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_address_rests_before_it_is_anothers() {
        let mut names = Names::default();
        let kept = names.index_of("kept.example");
        let oldest = names.index_of("oldest.example");
        for number in 0..MAX_NAMES {
            names.index_of(&format!("{number}.example"));
            names.name_at(kept);
        }
        assert_eq!(names.by_name.len(), MAX_NAMES);
        assert_eq!((names.by_index.len(), names.by_use.len()), (MAX_NAMES, MAX_NAMES));
        assert_eq!(names.name_at(kept).as_deref(), Some("kept.example"));
        assert_eq!(names.name_at(oldest), None);
        let rounds = (LAST_NAME - FIRST_NAME) as usize - MAX_NAMES - 2;
        for number in 0..rounds {
            assert_ne!(names.index_of(&format!("{number}.other.example")), oldest, "after {number}");
        }
        for number in 0..10 {
            let index = names.index_of(&format!("{number}.last.example"));
            assert!((FIRST_NAME..=LAST_NAME).contains(&index));
        }
    }
}
