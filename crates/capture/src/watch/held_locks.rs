//! Locks whose holders the agent is asked to tell: sets of addresses in its arena's header. Function
//! probes read in the thread itself whether it holds one of a set.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use convoy_abi as abi;
use convoy_probes::Holding;
use zerocopy::FromBytes;

use crate::arena;
use crate::session;

/// Sets of watched locks in one process. When this is dropped, nothing is watched any more.
#[derive(Debug)]
pub struct HeldLocks {
    file: File,
    offset: i64,
    epoch: u32,
    sets: u8,
    /// The agent sees the table.
    is_published: bool,
    /// As the agent reads it: address << 8 and a bit for each set.
    table: Vec<u64>,
}

const EPOCH_AT: u64 = offset_of!(abi::Arena, watch_epoch) as u64;
const WATCHED_AT: u64 = offset_of!(abi::Arena, watched) as u64;

/// Bits of a word of the table that are the sets.
const SETS: u32 = 8;

impl HeldLocks {
    /// Of a process whose agent writes into this session directory.
    ///
    /// # Errors
    /// A text for people: what stands in the way.
    pub fn open(dir: &Path, pid: u32) -> Result<Self, String> {
        let arenas = session::arenas(dir);
        // In order: the last image of a process stays.
        let own = arenas.iter().rfind(|arena| arena.pid == pid);
        let path = &own.ok_or("the agent's tables are gone")?.path;
        let readable = arena::open(path).map_err(|e| e.to_string())?;
        let head = arena::head(&readable).map_err(|e| e.to_string())?;
        let (head, _) = abi::Arena::read_from_prefix(&head).map_err(|e| e.to_string())?;
        if head.version != abi::CV_ABI_VERSION || head.holding_offset == 0 {
            return Err("the agent in the process does not tell which locks a thread holds".into());
        }
        let file = arena::open_to_write(path)
            .map_err(|e| format!("the agent's tables cannot be written: {e}"))?;
        Ok(Self {
            file,
            offset: head.holding_offset,
            epoch: new_epoch(),
            sets: 0,
            is_published: false,
            table: vec![0; abi::CV_WATCHED],
        })
    }

    /// Begins another set, of no lock yet. `None` = there are too many; sets are not used again.
    pub fn begin_set(&mut self) -> Option<Holding> {
        let slot = (usize::from(self.sets) < abi::CV_WATCH_SETS).then_some(self.sets)?;
        self.sets += 1;
        Some(Holding {
            offset: self.offset,
            epoch: self.epoch,
            slot,
        })
    }

    /// Lets the agent see the table, once the probes that ask for it are in: until then another
    /// convoy's may be there.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn publish(&mut self) -> std::io::Result<()> {
        if self.is_published {
            return Ok(());
        }
        let words: Vec<u8> = self
            .table
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        self.file.write_all_at(&words, WATCHED_AT)?;
        self.file
            .write_all_at(&self.epoch.to_le_bytes(), EPOCH_AT)?;
        self.is_published = true;
        Ok(())
    }

    /// Adds locks to a set; tells how many found no room.
    pub fn watch(&mut self, set: Holding, addresses: impl Iterator<Item = u64>) -> usize {
        let refused = addresses.filter(|address| !self.add(*address, 1 << set.slot));
        refused.count()
    }

    fn add(&mut self, address: u64, set: u64) -> bool {
        let Some(at) = self.place_of(address) else {
            return false;
        };
        let word = self.table[at] | address << SETS | set;
        if word == self.table[at] {
            return true;
        }
        self.table[at] = word;
        if !self.is_published {
            return true;
        }
        let to = WATCHED_AT + 8 * at as u64;
        self.file.write_all_at(&word.to_le_bytes(), to).is_ok()
    }

    /// Where the agent looks for it (agent/src/cv_watch.c). `None` = no place is left; the last one
    /// stays free, and ends the agent's search.
    fn place_of(&self, address: u64) -> Option<usize> {
        let has_room = self.table.iter().filter(|word| **word == 0).count() > 1;
        let first = (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize;
        let mut places = (0..abi::CV_WATCHED).map(|n| (first + n) % abi::CV_WATCHED);
        let is_it = |at: &usize| match self.table[*at] {
            0 => true,
            word => word >> SETS == address,
        };
        let place = places.find(is_it).filter(|_| address >> (64 - SETS) == 0);
        place.filter(|at| has_room || self.table[*at] != 0)
    }
}

/// A number that no earlier convoy has used for the process: threads keep their counts with it, also
/// over the end of a session and in a child.
fn new_epoch() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // The low bits of microseconds: never the same within an hour, and by chance later.
    (now.map_or(1, |since| since.as_micros()) as u32).max(1)
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        if !self.is_published {
            return;
        }
        // The process may be gone, and its file with it.
        let _ = self.file.write_all_at(&0u32.to_le_bytes(), EPOCH_AT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::synthetic::Builder;

    fn arena(dir: &Path, holding_offset: i64) {
        let mut arena = Builder::new();
        arena.header.holding_offset = holding_offset;
        arena.header.watch_epoch = 7;
        std::fs::write(dir.join("p12.0"), arena.finish()).unwrap();
    }

    fn head(dir: &Path) -> abi::Arena {
        let bytes = std::fs::read(dir.join("p12.0")).unwrap();
        abi::Arena::read_from_prefix(&bytes).unwrap().0
    }

    #[test]
    fn locks_are_found_as_the_agent_looks_for_them() {
        let dir = tempfile::tempdir().unwrap();
        arena(dir.path(), -64);
        let mut held = HeldLocks::open(dir.path(), 12).unwrap();
        let (first, second) = (held.begin_set().unwrap(), held.begin_set().unwrap());
        assert_eq!((first.offset, first.slot), (-64, 0));
        assert_eq!(held.watch(first, [0x7f00_0040, 0x40].into_iter()), 0);
        assert_eq!(
            head(dir.path()).watch_epoch,
            7,
            "another convoy's, until then"
        );
        held.publish().unwrap();
        assert_eq!(held.watch(second, [0x40].into_iter()), 0);
        let head = head(dir.path());
        assert_eq!(head.watch_epoch, first.epoch);
        let mut words: Vec<u64> = head.watched.into_iter().filter(|w| *w != 0).collect();
        words.sort_unstable();
        assert_eq!(words, [0x40 << 8 | 3, 0x7f00_0040 << 8 | 1]);
        drop(held);
        assert_eq!(self::head(dir.path()).watch_epoch, 0);
    }

    #[test]
    fn sessions_have_epochs_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        arena(dir.path(), 16);
        let epoch = || {
            let mut held = HeldLocks::open(dir.path(), 12).unwrap();
            let set = held.begin_set().unwrap();
            held.publish().unwrap();
            set.epoch
        };
        let first = epoch();
        std::thread::sleep(std::time::Duration::from_micros(10));
        assert_ne!(first, epoch());
    }

    #[test]
    fn more_locks_than_there_is_room_for_are_told() {
        let dir = tempfile::tempdir().unwrap();
        arena(dir.path(), 16);
        let mut held = HeldLocks::open(dir.path(), 12).unwrap();
        let set = held.begin_set().unwrap();
        assert_eq!(held.watch(set, (1..=300).map(|n| n * 64)), 45);
        assert_eq!(held.watch(set, (1..=300).map(|n| n * 64)), 45);
        assert_eq!((1..8).filter_map(|_| held.begin_set()).count(), 7);
        assert_eq!(held.begin_set(), None);
    }

    #[test]
    fn an_agent_that_does_not_tell_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        arena(dir.path(), 0);
        let error = HeldLocks::open(dir.path(), 12).unwrap_err();
        assert!(error.contains("does not tell"), "{error}");
        assert!(HeldLocks::open(dir.path(), 13).is_err());
    }
}
