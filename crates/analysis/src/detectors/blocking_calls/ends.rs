//! Which end of a connection a thread waits at: who asks, or who is asked.

use std::collections::BTreeMap;

use convoy_model::{OffCpu, OffReason, SiteId};

use crate::facts::run_view::RunView;

/// Waits for known ends from which on others of the same code are taken for the same.
const KNOWN: u64 = 5;

/// Which end of a connection a socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Asks,
    Asked,
    /// Where connections arrive.
    Listens,
    Unknown,
}

/// By what the recorder calls it: it knows what ports are listened at. Of a connection within the machine, the end that is asked has
/// the path.
pub(crate) fn end(view: &RunView, off: &OffCpu) -> End {
    let name = view.file_name(off.name);
    let Some(rest) = name.and_then(|name| name.strip_prefix("socket: ")) else {
        return End::Unknown;
    };
    if rest.ends_with(", listening") {
        return End::Listens;
    }
    match rest.split_once(' ') {
        Some(("unix", _)) => End::Asked,
        Some((_, rest)) if rest.starts_with("to port ") => End::Asks,
        Some((_, rest)) if rest.starts_with("port ") => End::Asked,
        _ => End::Unknown,
    }
}

/// What the known ends are, by where a thread waits for them. A connection that is over before it is looked at has no name; where most
/// are short, the same code had others that have one.
#[derive(Debug, Default)]
pub(super) struct Ends(BTreeMap<SiteId, Known>);

/// Of one call stack.
#[derive(Debug, Default)]
struct Known {
    n: u64,
    asks_ns: f64,
    asked_ns: f64,
}

impl Ends {
    pub(super) fn of(view: &RunView) -> Self {
        let mut all = Self::default();
        let sockets = view.sched.offs.iter();
        for off in sockets.filter(|off| off.reason == OffReason::Socket) {
            let Some(site) = off.site else { continue };
            let end = end(view, off);
            let known = all.0.entry(site).or_default();
            match end {
                End::Asks => known.asks_ns += off.sum_ns as f64,
                End::Asked => known.asked_ns += off.sum_ns as f64,
                End::Listens | End::Unknown => continue,
            }
            known.n = known.n.saturating_add(off.n);
        }
        all
    }

    /// The shares in which threads that wait there ask and are asked; none if too little is known.
    pub(super) fn like(&self, site: Option<SiteId>) -> (f64, f64) {
        let known = site.and_then(|site| self.0.get(&site));
        let Some(known) = known.filter(|known| known.n >= KNOWN) else {
            return (0.0, 0.0);
        };
        let all = (known.asks_ns + known.asked_ns).max(1.0);
        (known.asks_ns / all, known.asked_ns / all)
    }
}
