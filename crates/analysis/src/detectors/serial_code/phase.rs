//! Code that runs at low parallelism, and the functions that it goes through.

use std::collections::BTreeMap;

use convoy_model::{passes_on, CodeFrom, SiteFrame, SiteId};

use crate::facts::call_path::{function_key, path_frames};
use crate::facts::run_view::RunView;

/// A function that has this share of a phase is where its time goes.
pub(super) const DOMINANT: f64 = 0.8;

/// Activity at low parallelism with one call stack.
#[derive(Debug, Clone)]
pub(super) struct Piece<'a> {
    /// CMetric.
    pub(super) cm: f64,
    pub(super) time: f64,
    /// At any parallelism.
    pub(super) all: f64,
    pub(super) site: Option<SiteId>,
    pub(super) from: CodeFrom,
    /// No sample fell into it, and it ended in a wait for a message: a request, an answer, an event.
    pub(super) until_message: bool,
    /// Outermost first, runtime frames left out.
    pub(super) frames: Vec<&'a SiteFrame>,
}

pub(super) fn outermost_first<'a>(view: &RunView<'a>, site: SiteId) -> Vec<&'a SiteFrame> {
    let frames = path_frames(view.model, site);
    let own = frames.iter().rev().filter(|frame| !passes_on(frame));
    let mut own: Vec<&SiteFrame> = own.collect();
    // How deep a recursion is tells nothing of where the time goes.
    own.dedup_by_key(|frame| function_key(frame));
    if own.is_empty() {
        frames.first().into_iter().collect()
    } else {
        own
    }
}

/// Pieces that go through one function, the innermost one that has nearly all of them.
pub(super) struct Phase<'a> {
    pub(super) pieces: Vec<Piece<'a>>,
    pub(super) depth: usize,
}

/// Goes inwards while one function has nearly all of `whole`, not of what its caller has: a little is lost at each
/// call, and after ten of them most. Where a thread's outermost function calls several, each is a phase of its own
/// (once); further in they are parts of one.
pub(super) fn split<'a>(
    pieces: Vec<Piece<'a>>,
    depth: usize,
    whole: f64,
    part: bool,
    out: &mut Vec<Phase<'a>>,
) {
    let mut children: BTreeMap<Option<String>, Vec<Piece>> = BTreeMap::new();
    for piece in pieces {
        let key = piece.frames.get(depth).map(|frame| function_key(frame));
        children.entry(key).or_default().push(piece);
    }
    let cm = |pieces: &[Piece]| pieces.iter().map(|p| p.cm).sum::<f64>();
    let dominant = children
        .iter()
        .find(|(key, child)| key.is_some() && cm(child) >= DOMINANT * whole)
        .map(|(key, _)| key.clone());
    if let Some(child) = dominant.and_then(|key| children.remove(&key)) {
        split(child, depth + 1, whole, part, out);
    } else if part && depth <= 1 && children.len() > 1 {
        for (key, child) in children {
            let inwards = usize::from(key.is_some());
            let whole = cm(&child);
            split(child, depth + inwards, whole, false, out);
        }
    } else {
        out.push(Phase {
            pieces: children.into_values().flatten().collect(),
            depth,
        });
    }
}

impl Phase<'_> {
    /// Whether so much of it is that.
    pub(super) fn has(&self, share: f64, is: impl Fn(&Piece) -> bool) -> bool {
        let those = self.pieces.iter().filter(|p| is(p));
        those.map(|p| p.cm).sum::<f64>() >= share * self.cm()
    }

    /// Whether no sample says what it is, and another phase was sampled below the function in which
    /// it blocked next: the same work, in pieces too short for a sample.
    pub(super) fn is_unsampled_above(&self, other: &Self) -> bool {
        let Some(first) = self.pieces.first() else {
            return false;
        };
        let is_unsampled = |piece: &Piece| {
            piece.from == CodeFrom::StackTop && piece.frames.len() == self.depth && self.depth > 0
        };
        let is_below = |piece: &Piece| {
            let mut outer = first.frames.iter().zip(&piece.frames);
            piece.from == CodeFrom::Sample
                && piece.frames.len() > first.frames.len()
                && outer.all(|(a, b)| function_key(a) == function_key(b))
        };
        self.has(DOMINANT, is_unsampled) && other.has(DOMINANT, is_below)
    }

    /// CMetric of all of it.
    pub(super) fn cm(&self) -> f64 {
        self.pieces.iter().map(|p| p.cm).sum()
    }

    /// The function that all of it goes through; with the line where it is the innermost one.
    pub(super) fn place(&self, first: &Piece) -> String {
        if self.depth == 0 {
            let shown = first.frames.last();
            return shown.map_or_else(|| "an unknown place".into(), |f| f.label());
        }
        let at = self
            .depth
            .saturating_sub(1)
            .min(first.frames.len().saturating_sub(1));
        let Some(frame) = first.frames.get(at) else {
            return "an unknown place".into();
        };
        if at + 1 == first.frames.len() {
            // A helper says little without its caller; what a thread runs all the time says nothing.
            let caller = at.checked_sub(1).filter(|&caller| caller > 0);
            return match caller.and_then(|caller| first.frames.get(caller)) {
                Some(caller) => format!("{}, called by {}", frame.label(), caller.label()),
                None => frame.label(),
            };
        }
        frame.whole().label()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str) -> SiteFrame {
        SiteFrame {
            function: function.into(),
            ..SiteFrame::default()
        }
    }

    fn phase<'a>(frames: &'a [SiteFrame], from: CodeFrom, cm: f64, depth: usize) -> Phase<'a> {
        let piece = Piece {
            cm,
            time: cm,
            all: cm,
            site: None,
            from,
            until_message: false,
            frames: frames.iter().collect(),
        };
        Phase {
            pieces: vec![piece],
            depth,
        }
    }

    #[test]
    fn unsampled_pieces_are_part_of_what_was_sampled_below_their_function() {
        let (outer, inner) = ([frame("pool")], [frame("pool"), frame("work")]);
        let other_thread = [frame("main"), frame("work")];
        let rest = phase(&outer, CodeFrom::StackTop, 25.0, 1);
        let work = phase(&inner, CodeFrom::Sample, 50.0, 2);
        assert!(rest.is_unsampled_above(&work));
        assert!(!work.is_unsampled_above(&rest));
        let sampled = phase(&outer, CodeFrom::Sample, 25.0, 1);
        assert!(
            !sampled.is_unsampled_above(&work),
            "a sample says what it is"
        );
        let elsewhere = phase(&other_thread, CodeFrom::Sample, 50.0, 2);
        assert!(!rest.is_unsampled_above(&elsewhere));
    }
}
