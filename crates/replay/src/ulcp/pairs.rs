//! Enumeration of pairs: a section and, in each other thread, the next section of the same lock.

use convoy_trace::ThreadIx;

use crate::sections::{Section, SectionIx, Sections, NO_WINDOW};

/// Other threads in which a section has a partner, at most: those that take the lock next.
pub const MAX_PEERS: usize = 64;

/// Calls `visit` with each pair of sections of one lock, given in order of acquisition, the one acquired
/// first first. Pairs of two readers exclude nobody and are left out, as are sections of different windows,
/// between which others are not recorded.
pub fn for_each_pair(
    sections: &Sections,
    of_lock: &[SectionIx],
    mut visit: impl FnMut(SectionIx, SectionIx),
) {
    // Backwards, so that the threads' next sections are known; the nearest is last.
    let mut next: Vec<(ThreadIx, SectionIx)> = Vec::new();
    let mut window = NO_WINDOW;
    for &ix in of_lock.iter().rev() {
        let Some(section) = sections.get(ix) else {
            continue;
        };
        if section.window != window {
            window = section.window;
            next.clear();
        }
        if window == NO_WINDOW {
            continue;
        }
        let others = next
            .iter()
            .rev()
            .filter(|(thread, _)| *thread != section.thread);
        for &(_, other) in others.take(MAX_PEERS) {
            let is_shared = sections.get(other).is_some_and(|other| other.shared);
            if !(is_shared && section.shared) {
                visit(ix, other);
            }
        }
        match next
            .iter()
            .rposition(|(thread, _)| *thread == section.thread)
        {
            Some(at) => {
                next.remove(at);
            }
            // Farther ones than these are nobody's partners.
            None if next.len() > MAX_PEERS => {
                next.remove(0);
            }
            None => {}
        }
        next.push((section.thread, ix));
    }
}

/// Whether the second of a pair had to wait while the first held the lock.
pub fn is_contended(first: &Section, second: &Section) -> bool {
    second.contended
        && second.requested_ns < first.released_ns
        && first.acquired_ns < second.acquired_ns
}
