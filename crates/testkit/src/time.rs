//! Lengths of time as the profile wants them: nanoseconds.

/// Nanoseconds.
pub const fn ns(n: u64) -> u64 {
    n
}

/// Microseconds in nanoseconds.
pub const fn us(n: u64) -> u64 {
    n * 1_000
}

/// Milliseconds in nanoseconds.
pub const fn ms(n: u64) -> u64 {
    n * 1_000_000
}

/// Seconds in nanoseconds.
pub const fn s(n: u64) -> u64 {
    n * 1_000_000_000
}
