//! Reads of what a process has in memory, and where.
//!
//! For a moment the kernel keeps a lock for them that the process itself needs to map memory. A reader that gives way to all others
//! would have it for as long as they keep it from a processor: it can say how it reads.

/// Calls what it is given once, in this thread.
pub type Around = fn(&mut dyn FnMut());

/// How reads are done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reads(pub(crate) Around);

impl Default for Reads {
    fn default() -> Self {
        Self(|read| read())
    }
}

impl Reads {
    /// What was read.
    pub(crate) fn of<T>(self, mut read: impl FnMut() -> Option<T>) -> Option<T> {
        let mut all = None;
        (self.0)(&mut || all = read());
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Reads;
    use crate::{Files, Unwinder};

    static READS: AtomicU32 = AtomicU32::new(0);

    fn counted(read: &mut dyn FnMut()) {
        READS.fetch_add(1, Ordering::Relaxed);
        read();
    }

    #[test]
    fn what_is_read_comes_back() {
        assert_eq!(Reads::default().of(|| Some(7)), Some(7));
        assert_eq!(Reads::default().of(|| None::<u32>), None);
    }

    #[test]
    fn the_map_is_read_as_the_caller_wants_it() {
        let mut unwinder = Unwinder::new(std::process::id(), &Files::new()).reading(counted);
        unwinder.refresh();
        let begun = READS.load(Ordering::Relaxed);
        assert!(begun > 0);
        // The file of this function is opened, too.
        let here = counted as *const () as u64;
        assert!(unwinder.code(here, 0, 16).is_some());
        assert!(READS.load(Ordering::Relaxed) > begun);
    }
}
