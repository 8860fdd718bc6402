//! How much of the processors others had meanwhile: other programs, and a hypervisor. What is said of waits, and of CPUs that
//! are short, holds for a machine that is as busy.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use convoy_profile::Meta;
use rustix::time::{clock_gettime, ClockId};

/// Share of the processors' time that is worth a note.
const MUCH: f64 = 0.15;
/// The kernel counts ticks: less says nothing of a short run. Nanoseconds.
const LEAST_NS: u64 = 100_000_000;

/// By processor. Nanoseconds, in steps of a tick.
pub(crate) type PerCpu = BTreeMap<usize, u64>;

/// CPU time up to a moment. Nanoseconds.
#[derive(Debug)]
pub(crate) struct Busy {
    /// That processors were busy.
    cpus: PerCpu,
    /// That this recorder ran.
    own: u64,
    /// That was wanted and given to others, all processors together, in steps of a tick; 0 on real hardware.
    stolen: u64,
}

impl Busy {
    /// Until now, on the processors that we may use.
    pub(crate) fn now() -> Self {
        let text = stat();
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own = Duration::try_from(own).unwrap_or_default();
        Self {
            cpus: of_ours(&text, &BUSY),
            own: u64::try_from(own.as_nanos()).unwrap_or(u64::MAX),
            stolen: stolen_ticks(&text).saturating_mul(tick_ns()),
        }
    }

    /// CPU time that the machine wanted since `start` and a hypervisor gave to others.
    pub(crate) fn stolen_ns(&self, start: &Self) -> u64 {
        self.stolen.saturating_sub(start.stolen)
    }

    /// CPU time that other programs had since `start`, and processors that could have it. The program itself ran for `program_ns`.
    fn others_ns(&self, start: &Self, program_ns: u64) -> (u64, u32) {
        let (cpus, busy) = since(&self.cpus, &start.cpus);
        let own = self.own.saturating_sub(start.own);
        (busy.saturating_sub(own).saturating_sub(program_ns), cpus)
    }

    /// The same as a share of what those processors could do in `wall_ns`, 0 to 1.
    pub(crate) fn others_share(&self, start: &Self, program_ns: u64, wall_ns: f64) -> f64 {
        let (others, cpus) = self.others_ns(start, program_ns);
        (others as f64 / (wall_ns * f64::from(cpus)).max(1.0)).min(1.0)
    }

    /// Notes what others had since `start`, and, if that was much, what the report has to say of it.
    pub(crate) fn tell(&self, start: &Self, program_ns: u64, meta: &mut Meta) {
        let wall_ns = meta.end_ns.saturating_sub(meta.start_ns);
        let (others, cpus) = self.others_ns(start, program_ns);
        let capacity = wall_ns as f64 * f64::from(cpus);
        let share = others as f64 / capacity.max(1.0);
        meta.others_ns = others.min(capacity as u64);
        let note = (share >= MUCH && others >= LEAST_NS).then(|| {
            format!(
                "other programs (clients included) used {:.0} % of the CPUs: the gains hold for a machine \
                 that busy",
                100.0 * share.min(1.0)
            )
        });
        meta.notes.extend(note);
    }
}

/// Time so far in which the processors that we may use had nothing to do.
pub(crate) fn idle() -> PerCpu {
    of_ours(&stat(), &IDLE)
}

/// What was added meanwhile, and to how many processors: of one that was switched on meanwhile the time before is not known.
pub(crate) fn since(now: &PerCpu, start: &PerCpu) -> (u32, u64) {
    let both = now.iter().filter_map(|(cpu, ns)| {
        let before = start.get(cpu)?;
        Some(ns.saturating_sub(*before))
    });
    both.fold((0, 0), |(n, sum): (u32, u64), ns| {
        (n + 1, sum.saturating_add(ns))
    })
}

fn stat() -> String {
    fs::read_to_string("/proc/stat").unwrap_or_default()
}

fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// These numbers of the processors that we may use.
fn of_ours(stat: &str, which: &[usize]) -> PerCpu {
    let allowed = rustix::thread::sched_getaffinity(None).ok();
    let is_ours = |cpu: usize| allowed.as_ref().is_none_or(|set| set.is_set(cpu));
    let ours = ticks(stat, which).filter(|(cpu, _)| is_ours(*cpu));
    let tick_ns = tick_ns();
    ours.map(|(cpu, ticks)| (cpu, ticks.saturating_mul(tick_ns)))
        .collect()
}

/// User, nice, system, interrupts (proc(5)).
const BUSY: [usize; 5] = [0, 1, 2, 5, 6];
/// With and without somebody who waits for a disk.
const IDLE: [usize; 2] = [3, 4];

/// Of each processor the sum of these numbers.
fn ticks<'a>(stat: &'a str, which: &'a [usize]) -> impl Iterator<Item = (usize, u64)> + 'a {
    stat.lines().filter_map(move |line| {
        let (cpu, numbers) = line.strip_prefix("cpu")?.split_once(' ')?;
        let ticks: Vec<u64> = numbers
            .split_whitespace()
            .map_while(|number| number.parse().ok())
            .collect();
        let those = which.iter().filter_map(|&at| ticks.get(at));
        Some((cpu.parse().ok()?, those.sum()))
    })
}

/// The eighth number of the line for all processors (proc(5)).
fn stolen_ticks(stat: &str) -> u64 {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    all.and_then(|numbers| numbers.split_whitespace().nth(7)?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{idle, stolen_ticks, ticks, Busy, Meta, BUSY, IDLE};

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let stat = "cpu  10 1 20 300 4 0 5 77 0 0\ncpu0 10 1 20 300 4 0 5 6 0 0\n";
        assert_eq!(stolen_ticks(stat), 77);
        assert_eq!(stolen_ticks("cpu  10 1 20 300\n"), 0, "an old kernel");
        assert_eq!(stolen_ticks(""), 0);
    }

    #[test]
    fn idle_and_stolen_time_is_not_busy() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 1 20 300 4 5 6 77 0 0\ncpu11 1 0 2 3\nintr 5\n";
        let those = |which| ticks(stat, which).collect::<Vec<_>>();
        assert_eq!(those(&BUSY), [(0, 42), (11, 3)]);
        assert_eq!(those(&IDLE), [(0, 304), (11, 3)]);
    }

    #[test]
    fn what_others_had_is_what_neither_we_nor_the_program_ran() {
        let ms = |ms: u64| ms * 1_000_000;
        let at = |all: u64, own| Busy {
            cpus: [(0, ms(all / 2)), (3, ms(all / 2))].into(),
            own: ms(own),
            stolen: 0,
        };
        let tell = |end: Busy, start: Busy, wall_ns, program_ns| {
            let mut meta = Meta {
                end_ns: wall_ns,
                ..Meta::default()
            };
            end.tell(&start, program_ns, &mut meta);
            (meta.notes.pop(), meta.others_ns)
        };
        let note = |end, start, wall, program| tell(end, start, wall, program).0;
        let told = |program| tell(at(1_900, 150), at(100, 50), ms(1_000), ms(program));
        assert_eq!(told(1_450).1, ms(250));
        let said = |program| told(program).0;
        // 1,800 of 2,000, of which 100 are ours.
        let text = said(700).expect("half of it");
        assert!(text.contains("used 50 % of the CPUs"), "{text}");
        assert_eq!(said(1_450), None);
        assert_eq!(note(at(60, 0), at(0, 0), ms(30), 0), None, "six ticks");
        let mut later = at(200, 50);
        later.cpus.insert(9, ms(5_000));
        assert_eq!(note(later, at(100, 50), ms(1_000), 0), None, "a new one");
        assert_eq!(
            note(at(0, 0), at(6, 5), 0, 9),
            None,
            "nonsense says nothing"
        );
    }

    #[test]
    fn this_machine_has_processors_that_were_busy() {
        let now = Busy::now();
        assert!(now.cpus.values().any(|busy| *busy > 0), "{now:?}");
        assert!(idle().values().any(|idle| *idle > 0));
    }
}
