//! Sessions over probes that only exist in memory.

use std::collections::BTreeMap;

use crate::curve::Point;
use crate::governor::{Governor, Prices};
use crate::place::Place;
use crate::probe::Probes;
use crate::request::Request;
use crate::row::Function;
use crate::session::Session;
use crate::thread::{tests::thread, Snapshot};
use convoy_probes::{Also, Cell, Counts, FileCell, Holding, Inserted, Measure, Probe, Refusal};

/// A program whose functions, by address, are called at constant rates by each of its threads.
#[derive(Default)]
struct Fake {
    now_ms: u64,
    /// Calls per millisecond, nanoseconds of a call.
    functions: BTreeMap<u64, (u64, u64)>,
    tids: Vec<u32>,
    /// Those that are not there any more.
    ended: Vec<u32>,
    probes: BTreeMap<u32, (Probe, u64)>,
    stops: usize,
    untimed: bool,
    lost_calls: u64,
    /// Milliseconds that an insertion takes.
    insertion_ms: u64,
    /// Milliseconds until a reading is made.
    reading_ms: u64,
    /// The next one is by uprobes.
    no_room: bool,
    /// Functions that cannot be probed.
    refused: Vec<u64>,
    files: Vec<FileCell>,
}

impl Probes for Fake {
    fn insert(&mut self, probes: &[Probe]) -> Result<Vec<Inserted>, Refusal> {
        self.stops += 1;
        self.now_ms += self.insertion_ms;
        for probe in probes {
            let old = self.probes.insert(probe.row, (probe.clone(), self.now_ms));
            assert!(old.is_none(), "row {} is taken", probe.row);
            if let Some(outer) = probe.within {
                assert_eq!(self.probes[&outer].0.measure, Measure::Time);
            }
        }
        let answer = |probe: &Probe| match probe.measure {
            _ if self.refused.contains(&probe.function.start) => Inserted::No {
                why: "there is no room".into(),
            },
            _ if self.no_room => Inserted::Uprobe {
                why: "there is no room".into(),
                call_ns: 1_000,
            },
            Measure::Time if self.untimed => Inserted::CallsOnly {
                why: "an exit is too short".into(),
            },
            _ => Inserted::Whole,
        };
        Ok(probes.iter().map(answer).collect())
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn remove(&mut self, rows: &[u32]) -> Result<(), Refusal> {
        self.stops += 1;
        for row in rows {
            assert!(self.probes.remove(row).is_some(), "row {row} is not in");
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Counts, Refusal> {
        self.now_ms += self.reading_ms;
        let mut cells = Vec::new();
        for (row, (probe, since)) in &self.probes {
            let (rate, ns) = self.functions[&probe.function.start];
            // Of confined calls, a tenth.
            let rate = if probe.is_gated() { rate / 10 } else { rate };
            let calls = rate * (self.now_ms - since);
            for tid in self.tids.iter().filter(|tid| !self.ended.contains(tid)) {
                let mut cell = Cell::new(*tid, *row);
                cell.calls = calls;
                if probe.also != Also::Nothing {
                    cell.bytes = calls * 100;
                }
                if probe.measure == Measure::Time {
                    cell.wall_ns = calls * ns;
                    cell.returned_ns = cell.wall_ns;
                    cell.cpu_ns = Some(calls * ns / 2);
                    cell.own_cpu_ns = Some(0);
                    cell.histogram[ns.ilog2() as usize] = calls as u32;
                }
                cells.push(cell);
            }
        }
        Ok(Counts {
            cells,
            files: self.files.clone(),
            lost_calls: self.lost_calls,
            lost_files: 0,
        })
    }
}

fn function(at: u64) -> Function {
    Function {
        name: format!("f{at}"),
        module: "m".into(),
        addresses: at..at + 16,
    }
}

struct Bench {
    fake: Fake,
    session: Session,
}

impl Bench {
    fn new(functions: &[(u64, u64, u64)]) -> Self {
        let functions = functions.iter().map(|(at, rate, ns)| (*at, (*rate, *ns)));
        let governor = Governor {
            budget: 0.03,
            prices: Prices {
                counter_ns: 1.0,
                timer_ns: 20.0,
            },
        };
        Self {
            fake: Fake {
                functions: functions.collect(),
                tids: vec![1, 2],
                ..Fake::default()
            },
            session: Session::new(governor),
        }
    }

    fn add(&mut self, request: &str, at: u64, within: Option<u64>) {
        let request: Request = request.parse().unwrap();
        let place = Place {
            within: within.map(function),
            ..Place::of([function(at)])
        };
        self.session.add(&mut self.fake, request, &place).unwrap();
    }

    /// Two threads that use one CPU each.
    fn threads(&self) -> Snapshot {
        let cpu = self.fake.now_ms * 1_000_000;
        let mut threads = vec![thread(1, "main", cpu), thread(2, "pool-1", cpu)];
        threads.retain(|thread| !self.fake.ended.contains(&thread.tid));
        threads.into()
    }

    fn advance(&mut self, ms: u64) {
        let end = self.fake.now_ms + ms;
        while let Some(next) = self.session.next_ms().filter(|next| *next < end) {
            self.fake.now_ms = next.max(self.fake.now_ms + 1);
            let (now, threads) = (self.fake.now_ms, self.threads());
            self.session.drive(&mut self.fake, now, &threads).unwrap();
        }
        self.fake.now_ms = end;
        let (now, threads) = (end, self.threads());
        self.session
            .sample(&mut self.fake, now, threads, None)
            .unwrap();
    }

    fn last(&self) -> Vec<Point> {
        let curves = self.session.curves();
        curves
            .map(|(_, curve)| curve.points.back().unwrap().clone())
            .collect()
    }

    fn is_close(&self, curve: usize, expected: f64) {
        let value = self.last()[curve].value.expect("a value");
        let off = (value / expected - 1.0).abs();
        assert!(off < 0.01, "{value}, expected {expected}");
    }
}

const CALLS: &str = r#"calls{function="f"}"#;
const WALL: &str = r#"wall{function="f"}"#;

#[test]
fn calls_are_exact_from_the_first_sample_on() {
    let mut bench = Bench::new(&[(0x100, 1000, 100)]);
    bench.advance(1000);
    bench.add(CALLS, 0x100, None);
    bench.advance(1000);
    bench.is_close(0, 2e6);
    assert_eq!(bench.last()[0].by_thread.len(), 2);
    assert_eq!(bench.fake.stops, 1, "a counter is put in once");
}

#[test]
fn time_that_an_insertion_takes_does_not_dilute_the_first_rate() {
    let mut bench = Bench::new(&[(0x100, 1000, 100)]);
    bench.advance(1000);
    bench.fake.insertion_ms = 500;
    bench.add(CALLS, 0x100, None);
    bench.advance(1000);
    bench.is_close(0, 2e6);
}

#[test]
fn a_late_reading_changes_no_rate_and_no_cost() {
    let mut bench = Bench::new(&[(0x100, 1000, 100)]);
    bench.add(CALLS, 0x100, None);
    bench.advance(1000);
    let cost = bench.last()[0].cost_share;
    for reading_ms in [700, 0, 300] {
        bench.fake.reading_ms = reading_ms;
        bench.advance(1000);
        bench.is_close(0, 2e6);
        let now = bench.last()[0].cost_share;
        assert!(
            now < 2.0 * cost,
            "{reading_ms} ms late: {now}, before {cost}"
        );
    }
}

#[test]
fn a_uprobe_counts_all_threads_together_at_its_own_price() {
    let mut bench = Bench::new(&[(0x100, 10, 100)]);
    bench.fake.no_room = true;
    bench.add(CALLS, 0x100, None);
    bench.add(r#"calls{function="f", thread="main"}"#, 0x100, None);
    bench.advance(1000);
    bench.advance(1000);
    bench.is_close(0, 2e4);
    let points = bench.last();
    let gap = points[1].gap.clone().expect("a reason");
    assert!(gap.contains("all threads together"), "{gap}");
    let cost: f64 = points.iter().map(|point| point.cost_share).sum();
    assert!(
        (cost - 0.01).abs() < 1e-3,
        "20,000/s of 1 us on 2 CPUs: {cost}"
    );
}

#[test]
fn calls_that_had_no_room_are_told_beside_the_value() {
    let mut bench = Bench::new(&[(0x100, 1000, 100)]);
    bench.add(CALLS, 0x100, None);
    bench.advance(1000);
    assert_eq!(bench.last()[0].gap, None);
    bench.fake.lost_calls = 7;
    bench.advance(1000);
    bench.is_close(0, 2e6);
    let gap = bench.last()[0].gap.clone().expect("a note");
    assert!(gap.starts_with("7 calls"), "{gap}");
    bench.advance(1000);
    assert_eq!(bench.last()[0].gap, None, "it is over");
}

#[test]
fn threads_and_groups_are_told_apart_without_other_probes() {
    let mut bench = Bench::new(&[(0x100, 1000, 100)]);
    bench.advance(1000);
    bench.add(CALLS, 0x100, None);
    bench.add(r#"calls{function="f", thread="pool-*"}"#, 0x100, None);
    bench.add(r#"calls{function="f", group="main"}"#, 0x100, None);
    bench.advance(1000);
    for (curve, rate) in [(0, 2e6), (1, 1e6), (2, 1e6)] {
        bench.is_close(curve, rate);
    }
    assert_eq!(bench.fake.probes.len(), 1, "one row serves all");
    let cost: f64 = bench.last().iter().map(|point| point.cost_share).sum();
    assert!(
        (cost - 0.001).abs() < 1e-4,
        "2 M/s of 1 ns on 2 CPUs: {cost}"
    );
}

#[test]
fn a_timer_follows_its_counter_where_the_budget_allows() {
    let mut bench = Bench::new(&[(0x100, 100, 100)]);
    bench.advance(1000);
    bench.add(WALL, 0x100, None);
    bench.add(r#"duration_p50{function="f"}"#, 0x100, None);
    assert_eq!(bench.fake.probes[&0].0.measure, Measure::Calls);
    bench.advance(1000);
    bench.is_close(0, 0.02);
    let median = bench.last()[1].value.unwrap();
    assert!((64.0..128.0).contains(&median));
    assert!(bench.session.take_notices().is_empty());
    assert!(bench.session.cost_share() < 0.03);
}

#[test]
fn threads_that_nobody_has_seen_are_a_gap_and_not_zero_calls() {
    let mut bench = Bench::new(&[(0x100, 10_000, 100)]);
    bench.advance(1000);
    bench.add(r#"calls{function="f", thread="nope"}"#, 0x100, None);
    bench.advance(1000);
    bench.advance(1000);
    let points = bench.last();
    assert_eq!(points[0].value, None);
    assert_eq!(points[0].gap.as_deref(), Some("no such thread is there"));
}

#[test]
fn a_timer_over_the_budget_is_a_gap_with_a_reason_and_never_zero() {
    let mut bench = Bench::new(&[(0x100, 10_000, 100)]);
    bench.advance(1000);
    bench.add(WALL, 0x100, None);
    bench.add(CALLS, 0x100, None);
    bench.advance(1000);
    let points = bench.last();
    assert_eq!(points[0].value, None);
    assert!(
        points[0].gap.as_ref().unwrap().contains("20 %"),
        "{points:?}"
    );
    bench.is_close(1, 2e7);
    let notices = bench.session.take_notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    bench.advance(1000);
    assert!(bench.session.take_notices().is_empty(), "said once");
}

#[test]
fn a_counter_over_the_budget_goes_out() {
    let mut bench = Bench::new(&[(0x100, 100_000, 1)]);
    bench.advance(1000);
    bench.add(CALLS, 0x100, None);
    bench.advance(1000);
    bench.advance(1000);
    assert!(bench.fake.probes.is_empty());
    assert_eq!(bench.last()[0].value, None);
    assert_eq!(bench.session.take_notices().len(), 1);
}

#[test]
fn a_timer_that_becomes_too_expensive_turns_into_a_counter() {
    let mut bench = Bench::new(&[(0x100, 100, 100)]);
    bench.advance(1000);
    bench.add(WALL, 0x100, None);
    bench.advance(1000);
    bench.is_close(0, 0.02);
    bench.fake.functions.insert(0x100, (20_000, 100));
    bench.advance(1000);
    bench.advance(1000);
    assert_eq!(bench.last()[0].value, None);
    let probe = bench.fake.probes.values().next().unwrap();
    assert_eq!(probe.0.measure, Measure::Calls);
}

#[test]
fn a_confined_function_is_counted_when_the_outer_one_is_timed() {
    let mut bench = Bench::new(&[(0x100, 100, 100), (0x200, 10, 1000)]);
    bench.advance(1000);
    bench.add(r#"calls{function="f", in="g"}"#, 0x100, Some(0x200));
    bench.advance(1000);
    bench.advance(1000);
    bench.is_close(0, 2e4);
}

#[test]
fn a_function_that_cannot_be_timed_still_counts() {
    let mut bench = Bench::new(&[(0x100, 100, 100)]);
    bench.fake.untimed = true;
    bench.advance(1000);
    bench.add(WALL, 0x100, None);
    bench.add(CALLS, 0x100, None);
    bench.advance(1000);
    let points = bench.last();
    assert_eq!(points[0].gap.as_deref(), Some("an exit is too short"));
    bench.is_close(1, 2e5);
}

#[test]
fn removing_a_curve_takes_out_what_no_other_one_uses() {
    let mut bench = Bench::new(&[(0x100, 100, 100), (0x200, 10, 1000)]);
    bench.advance(1000);
    bench.add(CALLS, 0x100, None);
    bench.add(r#"calls{function="f", in="g"}"#, 0x100, Some(0x200));
    bench.advance(1000);
    let ids: Vec<_> = bench.session.curves().map(|(id, _)| id).collect();
    bench.session.remove(&mut bench.fake, ids[1]).unwrap();
    assert_eq!(bench.fake.probes.len(), 1);
    bench.session.remove(&mut bench.fake, ids[0]).unwrap();
    assert!(bench.fake.probes.is_empty());
}

#[test]
fn cpu_and_run_queue_of_threads_need_no_probe() {
    let mut bench = Bench::new(&[]);
    let cpu: Request = r#"cpu{group="pool-#"}"#.parse().unwrap();
    bench
        .session
        .add(&mut bench.fake, cpu, &Place::default())
        .unwrap();
    bench.advance(1000);
    assert_eq!(bench.last()[0].value, None, "one reading says nothing");
    bench.advance(1000);
    bench.is_close(0, 1.0);
    assert_eq!(bench.fake.stops, 0);
}

#[test]
fn locks_without_an_agent_are_unknown() {
    let mut bench = Bench::new(&[]);
    let wait: Request = "wait".parse().unwrap();
    bench
        .session
        .add(&mut bench.fake, wait, &Place::default())
        .unwrap();
    bench.advance(1000);
    assert_eq!(bench.last()[0].value, None);
}

#[test]
fn sums_survive_the_replacement_of_a_probe_and_end_with_their_thread() {
    let mut bench = Bench::new(&[(0x100, 1000, 100)]);
    bench.advance(1000);
    bench.add(WALL, 0x100, None);
    let calls = |bench: &Bench| -> Vec<(u32, u64)> {
        let ids = bench.session.curves().map(|(id, _)| id);
        let probed = ids.flat_map(|id| bench.session.probed(id));
        let mut calls: Vec<_> = probed.map(|p| (p.cell.tid, p.cell.calls)).collect();
        calls.sort_unstable();
        calls
    };
    bench.advance(1000);
    assert_eq!(bench.fake.stops, 3, "a counter, and a timer in its place");
    assert_eq!(calls(&bench), [(1, 1_000_000), (2, 1_000_000)]);
    bench.fake.ended.push(2);
    bench.advance(1000);
    assert_eq!(
        calls(&bench),
        [(1, 2_000_000), (2, 1_000_000)],
        "its last values"
    );
    bench.advance(1000);
    bench.advance(1000);
    assert_eq!(
        calls(&bench),
        [(1, 4_000_000)],
        "nothing grows with ended threads"
    );
}

#[test]
fn a_call_site_counts_once_the_rate_of_all_calls_is_known() {
    let mut bench = Bench::new(&[(0x100, 100, 100)]);
    bench.advance(1000);
    let request: Request = r#"calls{function="f", caller="g"}"#.parse().unwrap();
    let place = Place {
        callers: vec![0x10..0x20, 0x30..0x40],
        ..Place::of([function(0x100)])
    };
    bench.session.add(&mut bench.fake, request, &place).unwrap();
    assert!(bench.fake.probes.values().all(|(p, _)| !p.is_gated()));
    bench.advance(1000);
    let callers: Vec<_> = bench
        .fake
        .probes
        .values()
        .map(|(p, _)| p.caller.clone())
        .collect();
    assert_eq!(callers, [Some(0x10..0x20), Some(0x30..0x40)]);
    bench.advance(1000);
    // Of a tenth of the calls of two threads, for each of two pieces of code.
    bench.is_close(0, 4e4);
    let cost = bench.last()[0].cost_share;
    // All calls pass both gates: 200,000 a second of 1 ns, on two CPUs.
    assert!((cost - 2e-4).abs() < 2e-5, "{cost}");
}

#[test]
fn time_is_measured_while_a_lock_is_held() {
    let mut bench = Bench::new(&[(0x100, 100, 1000)]);
    bench.advance(1000);
    let request: Request = r#"wall{function="f", holding="m"}"#.parse().unwrap();
    let holding = Holding {
        offset: -64,
        epoch: 3,
        slot: 1,
    };
    let place = Place {
        holding: Some(holding),
        ..Place::of([function(0x100)])
    };
    bench.session.add(&mut bench.fake, request, &place).unwrap();
    bench.advance(1000);
    let probe = bench.fake.probes.values().next().unwrap().0.clone();
    assert_eq!(
        (probe.holding, probe.measure),
        (Some(holding), Measure::Time)
    );
    let gap = bench.last()[0].gap.clone().unwrap();
    assert!(gap.contains("no lock answers to m"), "{gap}");
}

#[test]
fn functions_that_cannot_be_probed_are_named_beside_the_value() {
    let mut bench = Bench::new(&[(0x100, 100, 100), (0x200, 100, 100)]);
    bench.fake.refused = vec![0x200];
    bench.advance(1000);
    let names = [("malloc", 0x100), ("calloc", 0x200)];
    let functions = names.map(|(name, at)| Function {
        name: name.into(),
        ..function(at)
    });
    for metric in ["allocations", "allocated_bytes"] {
        let request = metric.parse().unwrap();
        let place = Place::of(functions.clone());
        bench.session.add(&mut bench.fake, request, &place).unwrap();
    }
    bench.advance(1000);
    bench.is_close(0, 2e5);
    bench.is_close(1, 2e7);
    for point in bench.last() {
        let gap = point.gap.unwrap();
        assert_eq!(gap, "calls of calloc are left out (there is no room)");
    }
    bench.fake.refused = vec![0x100, 0x200];
}

#[test]
fn files_are_measured_by_name_when_all_calls_are_timed() {
    let mut bench = Bench::new(&[(0x100, 1, 100)]);
    bench.advance(1000);
    let functions = [Function {
        name: "read".into(),
        ..function(0x100)
    }];
    let place = Place::of(functions);
    for text in [r#"read_bytes{file="*.log"}"#, "io_wait"] {
        let request = text.parse().unwrap();
        bench.session.add(&mut bench.fake, request, &place).unwrap();
    }
    assert!(bench.session.needs_file_names());
    bench.fake.files = vec![FileCell {
        tid: 1,
        descriptor: 3,
        read_bytes: 5000,
        wait_ns: 500_000_000,
        ..FileCell::default()
    }];
    let names = [(3, "/tmp/a.log".to_owned())];
    bench.session.name_files(names.into_iter());
    bench.advance(1000);
    // From 100 ms on, when the timer came.
    bench.is_close(0, 5000.0 / 0.9);
    bench.is_close(1, 0.5 / 0.9);
    assert_eq!(bench.fake.probes.len(), 1, "one probe for both");
}
