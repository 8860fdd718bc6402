//! What chance does to times.

/// The same work takes more or less CPU time on a processor that shares its core, its clock or its host with others:
/// by this share over a stretch of this length, in nanoseconds, and by chance another way in the next one. (Two
/// equal processes on two virtual processors: 126 and 237 ms, 153 and 230 ms.)
const SPEED_VARIES: f64 = 0.35;
const SPEED_STRETCH: f64 = 250e6;

/// By how much threads or processes with the same work, `work_ns` on average, may differ in time, in nanoseconds.
pub fn differs_by_chance(work_ns: f64) -> f64 {
    let stretches = (work_ns / SPEED_STRETCH).max(1.0);
    SPEED_VARIES * work_ns / stretches.sqrt()
}
