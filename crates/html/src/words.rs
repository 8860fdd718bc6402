//! Small texts of the page.

use convoy_profile::{Exit, Meta};

/// How the command ended.
pub(crate) fn exit(meta: &Meta) -> String {
    match meta.exit {
        Exit::Unknown => "end not seen".into(),
        Exit::Status(status) => format!("exit status {status}"),
        Exit::Signal(signal) => format!("ended by signal {signal}"),
        Exit::Running if meta.all_ended() => "ended".into(),
        Exit::Running => "still running when the recording ended".into(),
    }
}

/// An instant as `2026-01-31 12:34:56 UTC`.
pub(crate) fn date(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days to a civil date, with years that begin in March (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399_000_000_000), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_868_800_000_000_000), "2000-03-01 00:00:00 UTC");
        assert_eq!(date(1_767_225_599_999_999_999), "2025-12-31 23:59:59 UTC");
    }
}
