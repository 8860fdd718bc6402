//! Enumeration of pairs: a section and, in each other thread, the next section of the same lock.

use crate::sections::{Section, SectionIx, Sections, NO_WINDOW};

/// Other threads in which a section has a partner, at most: those that take the lock next.
pub const MAX_PEERS: usize = 64;

/// A section of a pair.
#[derive(Debug, Clone, Copy)]
pub struct Member<'s> {
    /// Its number.
    pub ix: SectionIx,
    /// The section.
    pub section: &'s Section,
}

/// Calls `visit` with each pair of sections of one lock, given in order of acquisition, the one acquired
/// first first. Pairs of two readers exclude nobody and are left out, as are sections of different windows,
/// between which others are not recorded.
pub fn for_each_pair<'s>(
    sections: &'s Sections,
    of_lock: &[SectionIx],
    mut visit: impl FnMut(Member<'s>, Member<'s>),
) {
    // Backwards, so that the threads' next sections are known; the nearest is last.
    let mut next: Vec<Member<'s>> = Vec::new();
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
        let member = Member { ix, section };
        let others = next
            .iter()
            .rev()
            .filter(|other| other.section.thread != section.thread);
        for &other in others.take(MAX_PEERS) {
            if !(other.section.shared && section.shared) {
                visit(member, other);
            }
        }
        match next
            .iter()
            .rposition(|other| other.section.thread == section.thread)
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
        next.push(member);
    }
}

/// Whether the second of a pair had to wait while the first held the lock.
pub fn is_contended(first: &Section, second: &Section) -> bool {
    second.contended
        && second.requested_ns < first.released_ns
        && first.acquired_ns < second.acquired_ns
}
