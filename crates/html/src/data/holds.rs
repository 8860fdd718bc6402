//! Lock holds, inferred from waits and wake-ups.
//!
//! When a lock was taken is not recorded. But whoever lets a waiter in has held the lock until
//! then, back to when the waiter before it was let in.

use convoy_model::ThreadId;

/// A wait that a thread of the recording ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedWait {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) waker: ThreadId,
}

/// A time in which a thread held the lock while others waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) holder: ThreadId,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// Holds of one lock, in order of time. They do not overlap.
pub(crate) fn holds(mut waits: Vec<EndedWait>) -> Vec<Hold> {
    waits.sort_by_key(|wait| wait.end_ns);
    // Since when somebody waited, of those who wait at least until the i-th wait's end.
    let mut since: Vec<u64> = waits.iter().map(|wait| wait.start_ns).collect();
    for i in (1..since.len()).rev() {
        since[i - 1] = since[i - 1].min(since[i]);
    }
    let mut before = 0;
    let mut holds = Vec::new();
    for (wait, since) in waits.iter().zip(since) {
        let start_ns = since.max(before);
        before = wait.end_ns;
        if wait.end_ns > start_ns {
            holds.push(Hold {
                holder: wait.waker,
                start_ns,
                end_ns: wait.end_ns,
            });
        }
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_held_the_lock_since_the_wake_up_before() {
        let wait = |start_ns, end_ns, waker| EndedWait {
            start_ns,
            end_ns,
            waker: ThreadId(waker),
        };
        let hold = |holder, start_ns, end_ns| Hold {
            holder: ThreadId(holder),
            start_ns,
            end_ns,
        };
        // The same example as in tests/html/browser.py.
        let waits = vec![wait(0, 10, 1), wait(30, 40, 3), wait(5, 20, 0)];
        let expected = [hold(1, 0, 10), hold(0, 10, 20), hold(3, 30, 40)];
        assert_eq!(holds(waits), expected);
    }
}
