//! The sentence at the head.

use convoy_report::human::{duration, percent};

use crate::compare::{Comparison, LockChange, Status};

/// Less than this is no difference, where no interval says otherwise.
const NO_DIFFERENCE: f64 = 0.02;

/// A change of the waited share that is worth a word: 2 percentage points.
const WORTH_A_WORD: f64 = 0.02;

/// The speed before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speed {
    Faster,
    Slower,
    Alike,
    Unknown,
}

/// How much faster, and why.
pub fn sentence(c: &Comparison) -> String {
    if let Some(programs) = &c.different {
        return different(c, programs);
    }
    let (speed, mut text) = speed(c);
    let lost: Vec<_> = c.runs().filter(|run| !run.lost.is_empty()).collect();
    if let [first, others @ ..] = lost.as_slice() {
        let is = match others.len() {
            0 => "is".into(),
            n => format!("and {n} more are"),
        };
        text += &format!(
            "{}{} {is} not whole, so that findings and waits cannot be compared",
            separator(&text),
            first.name
        );
        // A name at the beginning stays as it is.
        return if speed == Speed::Unknown {
            text
        } else {
            capital(&text)
        } + ".";
    }
    if let Some(lock) = telling(c, speed) {
        let fell = lock.wait_share.difference() < 0.0;
        let explained = matches!(
            (speed, fell),
            (Speed::Faster, true) | (Speed::Slower, false)
        ) && explains(c, lock);
        text += match (explained, speed) {
            (true, _) => ", because ",
            (false, Speed::Unknown) => "",
            (false, _) => "; ",
        };
        text += &format!(
            "waits on {} {} from {} to {} of thread time",
            lock.name,
            if fell { "fell" } else { "rose" },
            percent(lock.wait_share.mean_before()),
            percent(lock.wait_share.mean_after()),
        );
    } else if let Some(finding) = c.findings.iter().find(|f| f.status == Status::Went) {
        text += &format!("{}gone: {}", separator(&text), finding.title);
    } else if let Some(finding) = c.findings.iter().find(|f| f.status == Status::Came) {
        text += &format!("{}new: {}", separator(&text), finding.title);
    } else {
        text += &format!("{}no finding went or came", separator(&text));
    }
    capital(&text) + "."
}

/// One program is neither faster than another one nor slower: who knows what each of them did?
fn different(c: &Comparison, [was, is]: &[String; 2]) -> String {
    let times = match c.wall_is_speed {
        true => format!(
            " (run time {} before, {} after)",
            duration(c.wall_ns.mean_before()),
            duration(c.wall_ns.mean_after())
        ),
        false => String::new(),
    };
    format!("These are different programs, {was} before and {is} after{times}.")
}

fn separator(text: &str) -> &'static str {
    if text.is_empty() {
        ""
    } else {
        "; "
    }
}

fn speed(c: &Comparison) -> (Speed, String) {
    let Some(speed) = c.wall_ns.speed().filter(|_| c.wall_is_speed) else {
        return (Speed::Unknown, String::new());
    };
    let times = format!(
        "{} before, {} after",
        duration(c.wall_ns.mean_before()),
        duration(c.wall_ns.mean_after())
    );
    match c.wall_ns.speed_interval() {
        Some((low, high)) if low <= 1.0 && 1.0 <= high => {
            let text = format!(
                "no clear difference in speed ({} to {}; {times})",
                signed(low - 1.0),
                signed(high - 1.0)
            );
            (Speed::Alike, text)
        }
        Some((low, high)) if speed >= 1.0 => {
            let range = format!("{}-{}", whole(low - 1.0), percent(high - 1.0));
            let by = percent(speed - 1.0);
            (Speed::Faster, format!("faster by {by} ({range}; {times})"))
        }
        Some((low, high)) => {
            let range = format!("{}-{}", whole(1.0 - high), percent(1.0 - low));
            let by = percent(1.0 - speed);
            (Speed::Slower, format!("slower by {by} ({range}; {times})"))
        }
        None if (speed - 1.0).abs() < NO_DIFFERENCE => {
            (Speed::Alike, format!("about as fast as before ({times})"))
        }
        None if speed > 1.0 => {
            let by = percent(speed - 1.0);
            (Speed::Faster, format!("faster by {by} ({times})"))
        }
        None => {
            let by = percent(1.0 - speed);
            (Speed::Slower, format!("slower by {by} ({times})"))
        }
    }
}

/// The lock whose waits changed most, in the direction that the speed did if there is one.
fn telling(c: &Comparison, speed: Speed) -> Option<&LockChange> {
    if !c.locks_seen {
        return None; // they come and go with the recording
    }
    let told = c
        .locks
        .iter()
        .filter(|lock| !lock.idle && lock.wait_share.difference().abs() >= WORTH_A_WORD);
    let fell = |lock: &&LockChange| lock.wait_share.difference() < 0.0;
    let mut along = told.clone().filter(|lock| match speed {
        Speed::Faster => fell(lock),
        Speed::Slower => !fell(lock),
        Speed::Alike | Speed::Unknown => true,
    });
    along.next().or_else(|| told.clone().next())
}

/// The change of the waits, for a thread that waited the mean share, is a good part of the change of the run
/// time.
fn explains(c: &Comparison, lock: &LockChange) -> bool {
    const GOOD_PART: f64 = 1.0 / 3.0;
    let (share, wall) = (&lock.wait_share, &c.wall_ns);
    let waited = share.mean_before() * wall.mean_before() - share.mean_after() * wall.mean_after();
    waited / -wall.difference() >= GOOD_PART
}

/// Like [`percent`], without the sign for percent.
fn whole(ratio: f64) -> String {
    percent(ratio).trim_end_matches(" %").to_owned()
}

fn signed(ratio: f64) -> String {
    if ratio < 0.0 {
        format!("-{}", percent(-ratio))
    } else {
        percent(ratio)
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}
