//! Sections that are too long, too short, or too many.

use std::collections::BTreeSet;

use convoy_model::finding::Cause;
use convoy_model::{SectionFollow, SiteFrame};

use super::{decided, Judge};
use crate::groups::shown;
use crate::rows::{LineRow, Verdict};
use crate::text::{cause, evidence, frame, line_list, percent};

/// Lines that a fix names.
const LINES: usize = 8;
/// Between the release and the next acquire of the same lock: nobody else needs more. Nanoseconds.
const SMALL_GAP_NS: u64 = 2000;

/// Pairs of sections, one after the other, that say something.
const FOLLOWS: u64 = 8;

/// What comes right before or after the sections of a place.
struct Followed<'a> {
    share: f64,
    gap_ns: f64,
    places: Vec<&'a SiteFrame>,
}

impl Judge<'_> {
    /// Threads leave the processor while they hold it.
    pub(super) fn blocking(&self) -> Option<Verdict> {
        let case = self.case;
        if case.blocking.share < case.t.blocking {
            return None;
        }
        let worst = case
            .calls
            .iter()
            .filter(|call| call.blocking)
            .max_by(|a, b| a.sections.total_cmp(&b.sections))?;
        let what = crate::called_name(case.model, worst.what);
        let at = worst
            .frame
            .as_ref()
            .map_or_else(|| self.here.clone(), frame);
        Some(Verdict {
            lines: worst.frame.clone().into_iter().collect(),
            waits_saved: Some(worst.sections.min(1.0)),
            ..decided(
                cause(
                    "blocking-inside-section",
                    format!("the section calls {what}, which may block, while it holds the lock"),
                    format!("call {what} at {at} outside of the section: under the lock only take what it needs"),
                ),
                vec![evidence(
                    "blocking_ratio",
                    worst.sections,
                    format!("{} of the sections call {what} at {at}", percent(worst.sections)),
                )],
            )
        })
    }

    pub(super) fn too_large_or_too_many(&self) -> Option<Verdict> {
        let case = self.case;
        let movable = case.movable();
        let large = movable >= case.t.movable && case.instructions() > case.t.small_instructions;
        let together = &self.facts.together;
        let apart = self.apart(together);
        match (large, apart) {
            // Lines are moved more easily than data are divided: the parts must save more, and be whole.
            (true, Some(apart)) if apart.wholly && 1.0 - apart.conflicts.share > movable => {
                self.too_many(together, apart, Some(movable))
            }
            (true, _) => Some(self.too_large(movable)),
            (false, Some(apart)) => self.too_many(together, apart, None),
            (false, None) => self.between(together),
        }
    }

    fn too_large(&self, movable: f64) -> Verdict {
        let case = self.case;
        let mut lines: Vec<&LineRow> = case.lines.iter().filter(|line| line.movable).collect();
        lines.sort_by(|a, b| b.share.total_cmp(&a.share));
        lines.truncate(LINES);
        let shares: Vec<String> = lines
            .iter()
            .map(|line| format!("{} ({})", line_list(&[&line.frame]), percent(line.share)))
            .collect();
        let mut frames: Vec<SiteFrame> = lines.iter().map(|line| line.frame.clone()).collect();
        frames.sort();
        let list = line_list(&frames.iter().collect::<Vec<_>>());
        let left = case.instructions() * (1.0 - movable);
        Verdict {
            lines: frames.clone(),
            waits_saved: Some(movable),
            ..decided(
                cause(
                    "too-large-critical-section",
                    format!("{} of the section's instructions belong to lines that touch nothing shared", percent(movable)),
                    format!("move {list} out of the section at {}, as far as its order allows: {left:.0} of {:.0} instructions stay", self.here, case.instructions()),
                ),
                vec![evidence(
                    "movable_ratio",
                    movable,
                    format!("lines that touch nothing shared, with their share of the instructions: {}", shares.join(", ")),
                )],
            )
        }
    }

    /// One function takes it at several places, one right after the other.
    pub(super) fn several_small(&self) -> Option<Verdict> {
        self.followed_at_once(false)
    }

    /// One place takes it again and again.
    pub(super) fn too_fine(&self) -> Option<Verdict> {
        self.followed_at_once(true)
    }

    /// Sections of one function that follow one another at once, at one place (`again`) or at several.
    fn followed_at_once(&self, again: bool) -> Option<Verdict> {
        let case = self.case;
        if case.effort() > 2.0 * case.t.small_instructions {
            return None;
        }
        let followed = self.followed()?;
        let here = shown(case.model, case.group.site)?;
        if followed.share < case.t.followed || followed.places.iter().all(|&at| at == here) != again
        {
            return None;
        }
        let function = here.function_label();
        let list = line_list(&followed.places);
        let found = match again {
            true => cause(
                "lock-too-fine",
                format!("{function} takes it again and again, with nothing in between"),
                format!(
                    "hold it once around the loop at {list}, or work on a private copy and merge"
                ),
            ),
            false => cause(
                "several-small-sections",
                format!("{function} takes it at several places, one right after the other"),
                match self.nearly_all(&case.one_word) {
                    true => format!("one section around {list} in {function}, or an atomic operation instead of each"),
                    false => format!("one section around {list} in {function}"),
                },
            ),
        };
        let ratio = evidence(
            "followed_ratio",
            followed.share,
            format!(
                "{} of the sections come right before or after another one of the same thread, lock and function: {:.0} ns between them (median)",
                percent(followed.share),
                followed.gap_ns
            ),
        );
        Some(decided(found, vec![ratio]))
    }

    /// Of the sections here of which it is known what the thread did next (or before) with the lock, those where it took
    /// it again at once in the same function.
    fn followed(&self) -> Option<Followed<'_>> {
        let case = self.case;
        let of_site = |site: u32| {
            let row = case.sections.sites.get(site as usize)?;
            shown(case.model, row.site)
        };
        let function = shown(case.model, case.group.site)?.function.as_str();
        let places = |row: &SectionFollow| {
            let at_once = row.gap_median_ns <= SMALL_GAP_NS;
            let places = [of_site(row.first)?, of_site(row.then)?];
            let here = !function.is_empty() && places.iter().all(|at| at.function == function);
            (at_once && here).then_some(places)
        };
        let mut best: Option<Followed<'_>> = None;
        let roles: [fn(&SectionFollow) -> u32; 2] = [|row| row.first, |row| row.then];
        for ours in roles {
            let (mut all, mut near, mut gap) = (0, 0, 0);
            let follows = case.sections.follows.iter();
            for row in follows.filter(|row| case.group.sites.contains(&ours(row))) {
                all += row.n;
                if places(row).is_some() {
                    near += row.n;
                    gap += row.gap_median_ns.saturating_mul(row.n);
                }
            }
            let share = near as f64 / all.max(1) as f64;
            if all >= FOLLOWS && best.as_ref().is_none_or(|best| share > best.share) {
                best = Some(Followed {
                    share,
                    gap_ns: gap as f64 / near.max(1) as f64,
                    places: Vec::new(),
                });
            }
        }
        // All in a row, not only the neighbours.
        let row: BTreeSet<_> = case
            .sections
            .follows
            .iter()
            .filter_map(places)
            .flatten()
            .collect();
        let places = row.into_iter().collect();
        best.map(|best| Followed { places, ..best })
    }

    pub(super) fn small_cause(&self) -> Cause {
        cause(
            "small-section",
            "the section is so short that parking and waking cost more than it does",
            format!(
                "a spin or adaptive lock at {}, or several steps per acquisition",
                self.here
            ),
        )
    }

    pub(super) fn small(&self) -> Option<Verdict> {
        let case = self.case;
        (case.effort() <= case.t.small_instructions)
            .then(|| decided(self.small_cause(), self.conflicts()))
    }
}
