//! Fewer intervals than were recorded, for a page that is to stay small.

use convoy_model::{Interval, Lane, Mix, Times};

/// Lanes with at most about `most` intervals in all, and the length below which they were joined; nothing if there
/// are few enough.
pub(crate) fn thinned(lanes: &[Lane], most: usize) -> (Option<Vec<Lane>>, u64) {
    let count = |lanes: &[Lane]| lanes.iter().map(|l| l.intervals.len()).sum::<usize>();
    if count(lanes) <= most {
        return (None, 0);
    }
    let time: u64 = lanes
        .iter()
        .flat_map(|l| &l.intervals)
        .map(Interval::ns)
        .fold(0, u64::saturating_add);
    // With all of them that long there are at most half as many; some are longer.
    let mut least_ns = (time / most.max(1) as u64).max(1);
    let mut thinner: Vec<Lane> = lanes.iter().map(|lane| joined(lane, least_ns)).collect();
    while count(&thinner) > most && least_ns < time {
        least_ns = least_ns.saturating_mul(2);
        thinner = thinner.iter().map(|lane| joined(lane, least_ns)).collect();
    }
    (Some(thinner), least_ns)
}

/// Neighbours that are shorter than `least_ns` become one, until they are not.
fn joined(lane: &Lane, least_ns: u64) -> Lane {
    let mut intervals: Vec<Interval> = Vec::new();
    let mut short: Vec<Interval> = Vec::new();
    let mut length = 0u64;
    for &interval in &lane.intervals {
        if interval.ns() >= least_ns {
            intervals.extend(one(&mut short));
            intervals.push(interval);
            length = 0;
            continue;
        }
        short.push(interval);
        length = length.saturating_add(interval.ns());
        if length >= least_ns {
            intervals.extend(one(&mut short));
            length = 0;
        }
    }
    intervals.extend(one(&mut short));
    Lane {
        thread: lane.thread,
        intervals,
    }
}

/// Several as one: mainly what the longest of them is.
fn one(parts: &mut Vec<Interval>) -> Option<Interval> {
    let first = parts.first().copied()?;
    let longest = parts.iter().max_by_key(|i| i.ns()).copied()?;
    let end_ns = parts.last().map_or(first.end_ns, |last| last.end_ns);
    let several = parts.len() > 1;
    let mut times = Times::default();
    for part in parts.drain(..) {
        times += part.times();
    }
    Some(Interval {
        start_ns: first.start_ns,
        end_ns,
        mix: if several {
            Some(Mix::of(&times))
        } else {
            longest.mix
        },
        ..longest
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_model::{Doing, ThreadId};

    #[test]
    fn what_is_left_covers_the_same_time_with_the_same_shares() {
        let interval = |at: u64| Interval {
            start_ns: at * 10,
            end_ns: at * 10 + 10,
            doing: if at % 4 == 0 {
                Doing::Running(None)
            } else {
                Doing::Waiting(None)
            },
            ..Interval::default()
        };
        let lanes = vec![
            Lane {
                thread: ThreadId(0),
                intervals: (0..10_000).map(interval).collect(),
            },
            Lane {
                thread: ThreadId(1),
                intervals: vec![interval(0)],
            },
        ];
        assert!(thinned(&lanes, 10_001).0.is_none());
        let (thinner, least_ns) = thinned(&lanes, 100);
        let thinner = thinner.unwrap();
        assert!(least_ns >= 1000);
        assert!((20..=100).contains(&thinner[0].intervals.len()));
        assert_eq!(thinner[1].intervals.len(), 1);
        let sum = |lane: &Lane| {
            let mut sum = Times::default();
            lane.intervals.iter().for_each(|i| sum += i.times());
            sum
        };
        let (was, is) = (sum(&lanes[0]), sum(&thinner[0]));
        assert_eq!(was.all_ns(), is.all_ns());
        // A nanosecond an interval is lost to rounding.
        assert!(was.running_ns.abs_diff(is.running_ns) <= 200);
    }
}
