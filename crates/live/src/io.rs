//! What threads do to files and sockets: by file descriptor, as probes count it, and by name, as the
//! kernel tells it at each sample.

use std::collections::{BTreeMap, HashMap};

use convoy_probes::FileCell;

use crate::focus::{Focus, Key};
use crate::glob;
use crate::metric::Metric;
use crate::session::Lost;
use crate::thread::Roster;
use crate::value::Measured;

/// Descriptors with their names, and what was done to them.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    /// Those that were closed keep the last name.
    names: HashMap<u32, String>,
    /// By group, thread and descriptor.
    latest: HashMap<(u8, u32, u32), FileCell>,
    sampled: HashMap<(u8, u32, u32), FileCell>,
    lost: Lost,
}

impl Descriptors {
    pub fn name(&mut self, names: impl Iterator<Item = (u32, String)>) {
        self.names.extend(names);
    }

    pub fn take(&mut self, cells: Vec<FileCell>, lost: u64) {
        let keys = |cell: &FileCell| (cell.group, cell.tid, cell.descriptor);
        // What a thread that has ended did since the last sample is told once, maybe before others.
        let sampled = &self.sampled;
        self.latest
            .retain(|key, cell| sampled.get(key) != Some(cell));
        for mut cell in cells {
            let key = keys(&cell);
            let before = self.latest.get(&key).or_else(|| self.sampled.get(&key));
            // A call that ends between two loads must not take time back. Fewer bytes are a new count.
            let goes_on = |before: &&FileCell| {
                before.read_bytes <= cell.read_bytes && before.write_bytes <= cell.write_bytes
            };
            let least = before.filter(goes_on).map_or(0, |before| before.wait_ns);
            cell.wait_ns = cell.wait_ns.max(least);
            self.latest.insert(keys(&cell), cell);
        }
        self.lost.latest = lost;
    }

    /// A sample was made.
    pub fn sampled(&mut self) {
        self.sampled = self.latest.clone();
        self.lost.sampled = self.lost.latest;
    }

    fn changes(&self, group: u8) -> impl Iterator<Item = FileCell> + '_ {
        let latest = self.latest.iter().filter(move |(key, _)| key.0 == group);
        latest.map(|(key, now)| {
            let before = self.sampled.get(key).copied().unwrap_or_default();
            // An open call is taken for one that waits: it may turn out to have used the CPU.
            FileCell {
                read_bytes: now.read_bytes.saturating_sub(before.read_bytes),
                write_bytes: now.write_bytes.saturating_sub(before.write_bytes),
                wait_ns: now.wait_ns.saturating_sub(before.wait_ns),
                ..*now
            }
        })
    }

    /// The value of a metric since the last sample.
    pub fn measure(
        &self,
        (metric, focus): (Metric, &Focus),
        group: u8,
        roster: &Roster,
        seconds: f64,
    ) -> Measured {
        let mut sum = 0.0;
        let mut by_thread: BTreeMap<u32, f64> = BTreeMap::new();
        let mut unnamed = 0_u64;
        let wanted = focus.get(Key::File);
        for change in self.changes(group) {
            let is_in = match roster.get(change.tid) {
                Some(thread) => focus.holds(&thread.name()),
                None => !focus.selects_threads(),
            };
            let name = self.names.get(&change.descriptor);
            let is_meant = wanted.is_none_or(|p| name.is_some_and(|name| answers_to(p, name)));
            let amount = amount(metric, &change);
            if is_in && wanted.is_some() && name.is_none() && amount > 0 {
                unnamed += 1;
            }
            if is_in && is_meant {
                let value = match metric {
                    Metric::IoWait => amount as f64 / 1e9 / seconds,
                    _ => amount as f64 / seconds,
                };
                sum += value;
                *by_thread.entry(change.tid).or_default() += value;
            }
        }
        if let Some(pattern) = wanted.filter(|p| !self.names.values().any(|n| answers_to(p, n))) {
            return Measured::gap(format!("no open file answers to {pattern} so far"));
        }
        let measured = Measured {
            value: Some(sum),
            by_thread: by_thread.into_iter().collect(),
            ..Measured::default()
        };
        let unnamed = (unnamed > 0).then(|| {
            format!("{unnamed} descriptors are left out: they were closed before they were named")
        });
        let lost = self.lost.change();
        let lost = (lost > 0).then(|| {
            format!(
                "{lost} calls are left out: their threads use more files than there is room for"
            )
        });
        let gaps = [unnamed, lost].into_iter().flatten();
        gaps.fold(measured, Measured::incomplete)
    }
}

/// Whether a pattern means a file: its path, or the last part of it.
fn answers_to(pattern: &str, path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    glob::matches(pattern, path) || glob::matches(pattern, file)
}

fn amount(metric: Metric, cell: &FileCell) -> u64 {
    match metric {
        Metric::ReadBytes => cell.read_bytes,
        Metric::WriteBytes => cell.write_bytes,
        _ => cell.wait_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::tests::thread;

    fn cell(tid: u32, descriptor: u32, read_bytes: u64) -> FileCell {
        FileCell {
            tid,
            group: 1,
            descriptor,
            read_bytes,
            write_bytes: 2 * read_bytes,
            wait_ns: read_bytes * 1_000_000,
        }
    }

    fn two_threads() -> (Descriptors, Roster) {
        let mut roster = Roster::default();
        roster.update(vec![thread(1, "main", 0), thread(2, "pool-1", 0)].into());
        let mut all = Descriptors::default();
        let names = [(3, "/var/log/a.log"), (4, "socket:[12]")];
        all.name(names.map(|(fd, name)| (fd, name.to_owned())).into_iter());
        all.take(vec![cell(1, 3, 100), cell(2, 3, 10), cell(2, 4, 1)], 0);
        all.sampled();
        all.take(
            vec![
                cell(1, 3, 200),
                cell(2, 3, 40),
                cell(2, 4, 3),
                cell(2, 9, 7),
            ],
            0,
        );
        (all, roster)
    }

    #[test]
    fn a_file_is_meant_by_its_path_or_its_last_part() {
        assert!(answers_to("*.log", "/var/log/a.log"));
        assert!(answers_to("a.log", "/var/log/a.log"));
        assert!(answers_to("/var/log/*", "/var/log/a.log"));
        assert!(answers_to("socket:*", "socket:[12]"));
        assert!(!answers_to("log", "/var/log/a.log"));
    }

    #[test]
    fn amounts_are_differences_by_name_and_thread() {
        let (all, roster) = two_threads();
        let of = |metric, focus: &Focus| all.measure((metric, focus), 1, &roster, 2.0);
        let log = Focus::new().with(Key::File, "*.log");
        let read = of(Metric::ReadBytes, &log);
        assert_eq!(read.value, Some(65.0));
        assert_eq!(read.by_thread, [(1, 50.0), (2, 15.0)]);
        assert!(read.gap.unwrap().contains("1 descriptors are left out"));
        let pool = log.with(Key::Thread, "pool-*");
        assert_eq!(of(Metric::WriteBytes, &pool).value, Some(30.0));
        assert_eq!(of(Metric::IoWait, &pool).value, Some(0.015));
        // Without a name every descriptor counts.
        let whole = of(Metric::ReadBytes, &Focus::new());
        assert_eq!((whole.value, whole.gap), (Some(69.5), None));
        assert_eq!(
            all.measure((Metric::ReadBytes, &Focus::new()), 2, &roster, 1.0)
                .value,
            Some(0.0)
        );
    }

    #[test]
    fn a_thread_that_ends_between_two_samples_is_counted() {
        let (mut all, roster) = two_threads();
        let read = |all: &Descriptors| {
            let whole = (Metric::ReadBytes, &Focus::new());
            all.measure(whole, 1, &roster, 1.0).value
        };
        let before = read(&all);
        all.take(vec![cell(1, 3, 200)], 0);
        assert_eq!(read(&all), before, "its last reading counts");
        all.sampled();
        all.take(vec![cell(1, 3, 201)], 0);
        assert_eq!(read(&all), Some(1.0), "once");
    }

    #[test]
    fn waits_do_not_go_back() {
        let (mut all, roster) = two_threads();
        let mut open = cell(1, 3, 200);
        open.wait_ns -= 1_000_000;
        all.sampled();
        all.take(vec![open], 0);
        all.sampled();
        all.take(vec![cell(1, 3, 200)], 0);
        let wait = all.measure((Metric::IoWait, &Focus::new()), 1, &roster, 1.0);
        assert_eq!(wait.value, Some(0.0), "it was counted before");
    }

    #[test]
    fn what_is_not_known_is_no_zero() {
        let (mut all, roster) = two_threads();
        let none = Focus::new().with(Key::File, "*.db");
        let of = |all: &Descriptors, focus: &Focus| {
            all.measure((Metric::IoWait, focus), 1, &roster, 1.0)
        };
        assert_eq!(of(&all, &none).value, None);
        all.take(Vec::new(), 5);
        let lost = of(&all, &Focus::new());
        assert!(lost.gap.unwrap().contains("5 calls are left out"));
    }
}
