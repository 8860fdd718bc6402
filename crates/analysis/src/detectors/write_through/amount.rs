//! How much is written through at a time. Of a little, the disk's answer is what takes time, and one for several commits saves most
//! of it. Much takes as long in however few calls: the disk's throughput is the limit.

use convoy_model::{NameId, OffId, OffReason};

use crate::detectors::small_io::bytes;
use crate::facts::own_wait::Blocked;
use crate::facts::run_view::RunView;

/// Calls that write so many bytes, 2 to this, or more move data, however often they are written through.
const LARGE_BITS: u8 = 17;
/// So many bytes a commit take a disk as long as its answer: a millisecond at 256 MB a second.
const MUCH_BYTES: f64 = 262_144.0;
/// A disk that is given much at a time is waited for once for more than so many bytes. Fewer for each wait are many commits, however few
/// of them can be told apart.
const OF_A_WAIT: f64 = 65_536.0;
/// What a call that writes takes on a processor, nanoseconds: to enter the kernel, find the page and account for it, and for each
/// byte.
const CALL_NS: f64 = 1_000.0;
const BYTE_NS: f64 = 0.3;
/// Calls, as bits of their bytes, that nobody was seen to make are taken for such: a page.
const UNSEEN_BITS: u8 = 13;

/// What a commit writes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    Little,
    Much,
    /// Too few samples of the calls that write to tell, or none of them: a mapping of a file is written without any.
    #[default]
    Unknown,
}

impl Amount {
    /// By samples of the calls that write to these files, for so many commits.
    pub(super) fn of(view: &RunView, sync: &Blocked, commits: u64) -> Self {
        if sync.ids.iter().any(|id| is_of_a_mapping(view, *id)) {
            return Self::Unknown;
        }
        let period = view.sched.sample_period_ns as f64;
        let a_sample = |size_class: u8| {
            let bytes = bytes(size_class);
            bytes * period / (CALL_NS + BYTE_NS * bytes)
        };
        // Where no file has a name, it may be any.
        let same_file = |id: NameId| match sync.names.is_empty() {
            true => view
                .file_name(Some(id))
                .is_none_or(|of| of.starts_with('/')),
            false => sync.names.contains_key(&id),
        };
        let rows = view.sched.writes.iter().filter(|row| {
            !row.reads && row.name.is_none_or(same_file) && sync.in_it.contains_key(&row.thread)
        });
        let (mut n, mut large, mut written) = (0, 0, 0.0);
        for row in rows {
            n += row.n;
            large += if row.size_class >= LARGE_BITS {
                row.n
            } else {
                0
            };
            written += row.n as f64 * a_sample(row.size_class);
        }
        let mean = match n {
            0 => a_sample(UNSEEN_BITS),
            _ => written / n as f64,
        };
        // By luck there are so many samples too many; and one more could as well have been there.
        let n_luck = (n as f64).sqrt();
        let (at_least, at_most) = (mean * (n as f64 - n_luck), mean * (n as f64 + 1.0));
        let much = MUCH_BYTES * (commits as f64).max(1.0);
        if 2 * large > n {
            Self::Much
        } else if at_most < OF_A_WAIT * sync.n as f64 {
            Self::Little
        } else if at_least >= much {
            Self::Much
        } else if at_most < much {
            Self::Little
        } else {
            Self::Unknown
        }
    }
}

/// msync(), on x86-64 and on aarch64.
fn is_of_a_mapping(view: &RunView, id: OffId) -> bool {
    const MSYNC: [i16; 2] = [26, 227];
    let off = view.sched.off(id);
    off.is_some_and(|off| off.reason == OffReason::Sync && MSYNC.contains(&off.nr))
}
