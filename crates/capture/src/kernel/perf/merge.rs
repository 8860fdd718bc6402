//! Records of all processors in one order of time.

use super::record::{parse, What};

/// Records that wait for earlier ones of other processors.
#[derive(Debug, Default)]
pub(super) struct Merge {
    waiting: Vec<(u64, What)>,
    /// Time of the last record handed out.
    delivered_ns: u64,
    /// By processor, time of the last record read: what is lost came after.
    last_ns: Vec<u64>,
}

impl Merge {
    /// Adds what a processor's ring held.
    pub(super) fn take(&mut self, cpu: u32, bytes: &[u8]) {
        let cpu = cpu as usize;
        if self.last_ns.len() <= cpu {
            self.last_ns.resize(cpu + 1, 0);
        }
        for (ts, what) in parse(bytes) {
            let from_ns = std::mem::replace(&mut self.last_ns[cpu], ts);
            let what = match what {
                What::Lost { n, .. } => What::Lost { n, from_ns },
                other => other,
            };
            self.waiting.push((ts, what));
        }
    }

    /// Adds something that no ring said.
    pub(super) fn push(&mut self, at: (u64, What)) {
        self.waiting.push(at);
    }

    /// Whether it is known that this thread was made by one that is measured.
    pub(super) fn has_fork_of(&self, made: u32) -> bool {
        let fork = |what: &What| matches!(what, What::Fork { tid, .. } if *tid == made);
        self.waiting.iter().any(|(_, what)| fork(what))
    }

    /// Time of the last record taken out.
    pub(super) fn delivered_ns(&self) -> u64 {
        self.delivered_ns
    }

    /// Takes out what is older than this, in order of time. What comes too late for that gets the time of the
    /// one before it.
    pub(super) fn until(&mut self, upto: u64) -> impl Iterator<Item = (u64, What)> + '_ {
        // Stable, and quick where long runs are in order already.
        self.waiting.sort_by_key(|&(ts, _)| ts);
        let n = self.waiting.partition_point(|&(ts, _)| ts <= upto);
        let delivered_ns = &mut self.delivered_ns;
        self.waiting.drain(..n).map(move |(ts, what)| {
            *delivered_ns = ts.max(*delivered_ns);
            (*delivered_ns, what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(merge: &mut Merge, ts: u64, tid: u32) {
        merge.push((ts, What::In { tid }));
    }

    fn order(merge: &mut Merge, upto: u64) -> Vec<(u64, u32)> {
        let tid = |what| match what {
            What::In { tid } => tid,
            _ => 0,
        };
        merge
            .until(upto)
            .map(|(ts, what)| (ts, tid(what)))
            .collect()
    }

    #[test]
    fn records_come_out_in_order_and_late_ones_are_not_early() {
        let mut merge = Merge::default();
        at(&mut merge, 20, 1);
        at(&mut merge, 40, 2);
        at(&mut merge, 10, 3);
        assert_eq!(order(&mut merge, 30), [(10, 3), (20, 1)]);
        at(&mut merge, 15, 4);
        at(&mut merge, 40, 5);
        assert_eq!(order(&mut merge, 35), [(20, 4)]);
        assert_eq!(order(&mut merge, u64::MAX), [(40, 2), (40, 5)]);
    }
}
