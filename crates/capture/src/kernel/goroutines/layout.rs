//! Where in the runtime's structures what is.

/// Larger than any of them but the scheduler's own.
const LARGEST: u64 = 1 << 14;

/// Offsets in `runtime.g`, `sudog` and `hchan` (go: src/runtime/runtime2.go, chan.go). Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// g: the upper end of its stack.
    pub stack_hi: u64,
    /// g: what it goes on with: sp, pc, bp.
    pub sp: u64,
    pub pc: u64,
    pub bp: u64,
    pub status: u64,
    pub id: u64,
    pub reason: u64,
    /// g: times that it has given up its processor, modulo 256.
    pub turns: u64,
    /// g: its first function.
    pub start: u64,
    /// g: what it waits at.
    pub waiting: u64,
    /// sudog: the channel.
    pub channel: u64,
    /// hchan: how much fits in.
    pub capacity: u64,
}

/// Where `g.sched` is, and its first fields: in all versions that are known here.
const SCHED: u64 = 56;
const STACK_HI: u64 = 8;
/// hchan.dataqsiz, too.
const CAPACITY: u64 = 8;

impl Layout {
    /// Of a release, e.g. "go1.26.8" or "go1.22.1 X:rangefunc": as the debug information of programs has it that it built.
    /// Another one's may be different.
    pub fn of_version(version: &str) -> Option<Self> {
        let release = version.strip_prefix("go1.")?;
        let end = release
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(release.len());
        let (minor, rest) = release.split_at(end);
        // Experiments that it was built with come behind it.
        let rest = rest.split(' ').next().unwrap_or_default();
        let patch = match rest {
            "" => "0",
            _ => rest.strip_prefix('.')?,
        };
        if !patch.bytes().all(|b| b.is_ascii_digit()) {
            return None; // a release candidate, or somebody's own
        }
        //  bp in gobuf; in g: status, turns, start, waiting; in sudog: channel
        let (bp, status, turns, start, waiting, channel) = match minor.parse().ok()? {
            19u32 => (48, 144, 189, 312, 328, 80),
            21 => (48, 144, 188, 296, 312, 80),
            22 => (48, 144, 191, 296, 312, 80),
            23 | 24 => (48, 152, 199, 304, 320, 80),
            25 => (40, 144, 191, 296, 312, 80),
            26 => (40, 144, 191, 304, 320, 88),
            _ => return None,
        };
        Some(Self {
            stack_hi: STACK_HI,
            sp: SCHED,
            pc: SCHED + 8,
            bp: SCHED + bp,
            status,
            id: status + 8,
            reason: status + 32,
            turns,
            start,
            waiting,
            channel,
            capacity: CAPACITY,
        })
    }

    /// What is read of a goroutine.
    pub fn bytes(&self) -> usize {
        let words = [self.stack_hi, self.bp, self.id, self.start, self.waiting];
        let bytes = [(self.status, 4), (self.reason, 1), (self.turns, 1)];
        let all = words.map(|at| (at, 8)).into_iter().chain(bytes);
        // A program may say anything of itself.
        let last = all.map(|(at, bytes)| at.saturating_add(bytes)).max();
        last.unwrap_or(0) as usize
    }

    /// Whether it can be that of any version.
    pub fn is_sound(&self) -> bool {
        self.bytes() as u64 <= LARGEST && self.channel <= LARGEST && self.capacity <= LARGEST
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn what_no_structure_can_be_is_unsound() {
        let known = Layout::of_version("go1.26.8").unwrap();
        assert!(known.is_sound());
        let far = Layout {
            start: u64::MAX,
            ..known
        };
        assert!(!far.is_sound());
        let channel = u64::MAX;
        assert!(!Layout { channel, ..known }.is_sound());
    }

    #[test]
    fn releases_are_known_and_nothing_else() {
        for known in ["go1.26.8", "go1.21.13", "go1.24", "go1.22.1 X:rangefunc"] {
            assert!(
                Layout::of_version(known).is_some_and(|of| of.is_sound()),
                "{known}"
            );
        }
        for unknown in [
            "go1.27.0",
            "go1.26rc1",
            "go1.26.8-own",
            "devel go1.26-abc",
            "go2",
            "",
        ] {
            assert_eq!(Layout::of_version(unknown), None, "{unknown}");
        }
    }
}
