//! What goroutines wait for. A thread of Go that has nothing to run is idle, whoever waits for what; the runtime knows. While a
//! program of Go runs, the runtime's list of goroutines is read from its memory now and then: nothing is stopped, and
//! nothing is written. A look is not one moment: what changes meanwhile is seen before or after.

mod calls;
mod dwarf;
mod layout;
mod look;
#[cfg(test)]
mod made_up;
mod memory;
mod program;
mod tally;
#[cfg(test)]
mod tests;

use convoy_profile::GoProgram;

use self::look::{Look, Scratch};
use self::program::{Program, Programs};
use self::tally::Tally;
use super::images::{Image, Images};
use crate::clock::monotonic_ns;
use crate::poll::cpu_time;

/// Between two looks, on average. A random part of it makes them fall anywhere into what a program does again and again.
const PERIOD_NS: u64 = 20_000_000;
/// Looks take at most one part in so many of one processor's time, on average...
const COST: u64 = 500;
/// ... after a beginning, in which everything is met for the first time: nanoseconds.
const BEGINNING_NS: u64 = 5_000_000;
/// A look that finds nothing is followed by one after twice the time, and so on, up to this: a runtime that has only begun will have
/// goroutines, and a process that has ended will not. Nanoseconds.
const RARELY_NS: u64 = 1_000_000_000;
/// Goroutines that cannot be what they look like are others that have just begun or ended; of more than one in so many, the
/// structures are not as they should be.
const UNSOUND: u64 = 10;

/// What is known of an image's goroutines.
#[derive(Debug, Default)]
pub(crate) enum Known {
    /// Nobody has looked what it is.
    #[default]
    Nothing,
    /// It is no program of Go, or there is nothing to be said of it.
    Other,
    /// One of Go that cannot be looked into, and why.
    Closed(String),
    Go(Box<Watched>),
    /// One of Go that has ended.
    Ended(Box<GoProgram>),
}

/// A program that is looked at.
#[derive(Debug)]
pub(crate) struct Watched {
    program: Program,
    tally: Tally,
    begun_ns: u64,
    due_ns: u64,
    /// Looks in a row that found nothing.
    failures: u32,
    cost_ns: u64,
    unsound: (u64, u64),
}

/// Looks at all that run.
#[derive(Debug, Default)]
pub(crate) struct Goroutines {
    programs: Programs,
    scratch: Scratch,
    random: u64,
}

impl Goroutines {
    /// Looks at those programs whose time has come; when the next one's will have. The runtime of Go makes a thread before anything else.
    pub fn look(&mut self, images: &mut Images) -> Option<u64> {
        let mut next_ns = None;
        // The walk through their stacks, and the code that it leads to, is known for this machine only.
        if cfg!(target_arch = "x86_64") {
            images.each_threaded(|image| {
                self.look_at(image);
                let Known::Go(watched) = &image.goroutines else {
                    return false;
                };
                next_ns = Some(next_ns.map_or(watched.due_ns, |ns: u64| ns.min(watched.due_ns)));
                true
            });
        }
        next_ns
    }

    fn look_at(&mut self, image: &mut Image) {
        match &mut image.goroutines {
            Known::Other | Known::Closed(_) | Known::Ended(_) => {}
            Known::Nothing => {
                image.goroutines = match self.programs.of_process(image.pid) {
                    Ok(None) => Known::Other,
                    Ok(Some(program)) => Known::Go(Box::new(Watched::new(program))),
                    Err(why) => Known::Closed(why),
                }
            }
            Known::Go(watched) => {
                let now = monotonic_ns();
                if now < watched.due_ns {
                    return;
                }
                let before = cpu_time();
                let look = Look {
                    pid: image.pid,
                    program: &watched.program,
                    unwinder: &mut image.unwinder,
                };
                let looked = look.take(&mut self.scratch, &mut watched.tally);
                watched.cost_ns += cpu_time().saturating_sub(before).as_nanos() as u64;
                self.random = xorshift(self.random);
                match looked {
                    Some((all, unsound)) => {
                        watched.failures = 0;
                        watched.unsound.0 += all;
                        watched.unsound.1 += unsound;
                    }
                    None => watched.failures = watched.failures.saturating_add(1),
                }
                let early = now + watched.pause() + self.random % PERIOD_NS;
                let paid = watched.cost_ns.saturating_sub(BEGINNING_NS);
                let paid = watched.begun_ns.saturating_add(paid.saturating_mul(COST));
                watched.due_ns = early.max(paid);
                let (all, unsound) = watched.unsound;
                if unsound > UNSOUND && unsound * UNSOUND > all {
                    let version = &watched.program.version;
                    let why = format!("its goroutines do not look like those of {version}");
                    image.goroutines = Known::Closed(why);
                }
            }
        }
    }
}

impl Watched {
    fn new(program: Program) -> Self {
        Self {
            program,
            tally: Tally::default(),
            begun_ns: monotonic_ns(),
            due_ns: 0,
            failures: 0,
            cost_ns: 0,
            unsound: (0, 0),
        }
    }

    /// Until the next look, at least. Nanoseconds.
    fn pause(&self) -> u64 {
        let factor = 1u64.checked_shl(self.failures).unwrap_or(u64::MAX);
        (PERIOD_NS / 2).saturating_mul(factor).min(RARELY_NS)
    }
}

impl Known {
    /// There will be no more looks: only what they add up to is kept.
    pub fn end(&mut self) {
        *self = match std::mem::take(self) {
            ended @ Self::Go(_) => ended
                .into_row()
                .map_or(Self::Other, |row| Self::Ended(Box::new(row))),
            other => other,
        };
    }

    /// What is kept of an image's. Stacks and process are the image's own.
    pub fn into_row(self) -> Option<GoProgram> {
        match self {
            Self::Nothing | Self::Other => None,
            Self::Ended(row) => Some(*row),
            Self::Closed(unknown) => Some(GoProgram {
                unknown,
                ..GoProgram::default()
            }),
            Self::Go(watched) => {
                let Watched {
                    program,
                    tally,
                    cost_ns,
                    ..
                } = *watched;
                Some(GoProgram {
                    version: program.version,
                    cost_ns,
                    ..tally.into_row(&program.reasons)
                })
            }
        }
    }
}

fn xorshift(mut x: u64) -> u64 {
    if x == 0 {
        x = 0x9e37_79b9_7f4a_7c15;
    }
    x ^= x << 13;
    x ^= x >> 7;
    x ^ (x << 17)
}

#[cfg(test)]
mod watched {
    use super::layout::Layout;
    use super::{Known, Program, Watched, PERIOD_NS, RARELY_NS};

    fn watched() -> Watched {
        Watched::new(Program {
            version: "go1.26".into(),
            layout: Layout::of_version("go1.26").unwrap(),
            goroutines: 0,
            count: 0,
            procs: 0,
            reasons: Vec::new(),
        })
    }

    #[test]
    fn of_a_program_that_has_ended_the_sums_are_kept() {
        let mut known = Known::Go(Box::new(watched()));
        known.end();
        assert!(matches!(known, Known::Ended(_)));
        known.end();
        assert!(known.into_row().is_some_and(|row| row.version == "go1.26"));
        let mut known = Known::Closed("why".into());
        known.end();
        assert!(known.into_row().is_some_and(|row| row.unknown == "why"));
    }

    #[test]
    fn who_has_nothing_to_show_is_looked_at_seldom_but_for_ever() {
        let mut watched = watched();
        assert_eq!(watched.pause(), PERIOD_NS / 2);
        watched.failures = 1;
        assert_eq!(watched.pause(), PERIOD_NS);
        for failures in [7, 64, u32::MAX] {
            watched.failures = failures;
            assert_eq!(watched.pause(), RARELY_NS);
        }
    }
}
