//! Curves of a `convoy live` session: metrics of parts of a program over time.

use serde::{Deserialize, Serialize};

use crate::bytes::Malformed;
use crate::section::Tag;

pub(crate) const LIVE_SESSION: Tag = *b"LVSE";
pub(crate) const LIVE_CURVE: Tag = *b"LVCU";

/// Curves of a session; a reader gives up what comes after.
pub const MOST_LIVE_CURVES: usize = 256;
/// Points of a curve.
pub const MOST_LIVE_POINTS: usize = 3_600;
/// Threads of which a curve keeps values.
pub const MOST_LIVE_THREADS: usize = 16;
/// Marks of a session.
pub const MOST_LIVE_MARKS: usize = 1_024;

/// Bytes of a section: more than the largest curve takes.
const MOST_BYTES: usize = 4 << 20;

/// What a session measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveCurves {
    /// From one value to the next, nanoseconds.
    pub every_ns: u64,
    /// Its length, nanoseconds.
    pub length_ns: u64,
    /// What happened meanwhile, in order of time; at most [`MOST_LIVE_MARKS`].
    pub marks: Vec<LiveMark>,
    /// Marks and curves beyond the limits.
    pub left_out: u64,
    /// The curves. In sections of their own.
    #[serde(skip)]
    pub curves: Vec<LiveCurve>,
}

/// Something that explains a change of a curve.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveMark {
    /// Milliseconds since the start of the session.
    pub t_ms: u64,
    /// What.
    pub kind: LiveMarkKind,
    /// The thread, or the metric with its focus.
    pub text: String,
}

/// What a mark is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LiveMarkKind {
    /// A thread began.
    #[default]
    ThreadBegan,
    /// A thread ended.
    ThreadEnded,
    /// A curve was added: its probes went in.
    CurveAdded,
    /// A curve was removed: its probes went out.
    CurveRemoved,
}

/// A metric of a part of the program over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveCurve {
    /// The metric's name.
    pub metric: String,
    /// The part of the program: `{function="f"}`.
    pub focus: String,
    /// Unit of the values: `1/s`, `s/s`, `ns`, `threads`.
    pub unit: String,
    /// How they came about: `exact`, `sampled`, `inferred`.
    pub kind: String,
    /// The values, in order of time; at most [`MOST_LIVE_POINTS`].
    pub points: Vec<LivePoint>,
    /// Threads with values of their own, the largest first; at most [`MOST_LIVE_THREADS`].
    pub threads: Vec<LiveThread>,
    /// Threads that had no room.
    pub threads_left_out: u64,
}

/// A value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LivePoint {
    /// Milliseconds since the start of the session.
    pub t_ms: u64,
    /// `None` = not known.
    pub value: Option<f64>,
    /// Why it is not known, or incomplete; empty = it is.
    pub gap: String,
    /// What the probes cost, as a share of the program's CPU time.
    pub cost_ratio: f64,
}

/// The values of one thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveThread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// One for each point of the curve; `None` = it had none.
    pub values: Vec<Option<f64>>,
}

impl LiveCurves {
    /// Reads the session's own section.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, Malformed> {
        let this: Self = bounded(payload)?;
        let is_sound =
            this.marks.len() <= MOST_LIVE_MARKS && this.marks.is_sorted_by_key(|mark| mark.t_ms);
        is_sound.then_some(this).ok_or(Malformed::Number)
    }

    /// What it takes in memory without its curves, bytes.
    pub(crate) fn weight(&self) -> usize {
        let texts = self.marks.iter().map(|mark| mark.text.len());
        size_of::<Self>() + size_of_val(self.marks.as_slice()) + texts.sum::<usize>()
    }
}

impl LiveCurve {
    /// Reads a section.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, Malformed> {
        let this: Self = bounded(payload)?;
        let is_sound = this.is_sound();
        is_sound.then_some(this).ok_or(Malformed::Number)
    }

    fn is_sound(&self) -> bool {
        let points = &self.points;
        let of_points = points
            .iter()
            .flat_map(|p| p.value.iter().chain([&p.cost_ratio]));
        let of_threads = self.threads.iter().flat_map(|t| t.values.iter().flatten());
        points.len() <= MOST_LIVE_POINTS
            && points.is_sorted_by_key(|point| point.t_ms)
            && self.threads.len() <= MOST_LIVE_THREADS
            && self.threads.iter().all(|t| t.values.len() == points.len())
            && of_points.chain(of_threads).all(|x| x.is_finite())
    }

    /// What it takes in memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let texts = [&self.metric, &self.focus, &self.unit, &self.kind].map(String::len);
        let gaps = self.points.iter().map(|point| point.gap.len());
        let threads = self.threads.iter().map(|thread| {
            size_of::<LiveThread>() + thread.name.len() + size_of_val(thread.values.as_slice())
        });
        let own = size_of::<Self>() + size_of_val(self.points.as_slice());
        own + texts.iter().sum::<usize>() + gaps.chain(threads).sum::<usize>()
    }
}

fn bounded<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, Malformed> {
    match payload.len() <= MOST_BYTES {
        true => crate::read::fixed(payload),
        false => Err(Malformed::Long),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> LiveCurve {
        let point = |t_ms| LivePoint {
            t_ms,
            value: Some(1.5),
            ..LivePoint::default()
        };
        LiveCurve {
            metric: "calls".into(),
            points: vec![point(1000), point(2000)],
            threads: vec![LiveThread {
                tid: 7,
                name: "pool-1".into(),
                values: vec![None, Some(1.5)],
            }],
            ..LiveCurve::default()
        }
    }

    fn read(curve: &LiveCurve) -> Result<LiveCurve, Malformed> {
        LiveCurve::read(&postcard::to_stdvec(curve).unwrap())
    }

    #[test]
    fn unsound_curves_are_refused() {
        assert_eq!(read(&curve()), Ok(curve()));
        let spoil: [fn(&mut LiveCurve); 5] = [
            |c| c.points.reverse(),
            |c| c.points[0].value = Some(f64::NAN),
            |c| c.threads[0].values.truncate(1),
            |c| c.threads[0].values[1] = Some(f64::INFINITY),
            |c| c.threads = vec![c.threads[0].clone(); MOST_LIVE_THREADS + 1],
        ];
        for (ix, spoil) in spoil.iter().enumerate() {
            let mut curve = curve();
            spoil(&mut curve);
            assert_eq!(read(&curve), Err(Malformed::Number), "{ix}");
        }
    }

    #[test]
    fn sections_beyond_the_limit_are_refused() {
        let mut curve = curve();
        curve.metric = "x".repeat(MOST_BYTES);
        assert_eq!(read(&curve), Err(Malformed::Long));
    }
}
