//! Which way threads pass data through their connections. Who asks must send, again and again; who only receives is told what there
//! is (a subscriber, a monitor, a consumer), and waits for more of it.

use convoy_model::{bare, OffCpu, OffReason, Site};

use crate::facts::run_view::RunView;

/// The C library's calls that send and receive, of sockets alone and of all files. A program that receives by one kind sends by it,
/// too: that it writes then may be to a file.
const OF_SOCKETS: Calls = Calls {
    send: &["send", "sendto", "sendmsg", "sendmmsg", "sendfile"],
    receive: &["recv", "recvfrom", "recvmsg", "recvmmsg"],
};
const OF_FILES: Calls = Calls {
    send: &["write", "writev", "sendfile"],
    receive: &["read", "readv"],
};

struct Calls {
    send: &'static [&'static str],
    receive: &'static [&'static str],
}

/// Samples in calls of a known direction from which on they tell one that asks...
const KNOWN: u64 = 25;
/// ... by this share of them that send. A request takes the kernel about as long as its answer.
const SENDS: f64 = 0.02;

/// What samples show of a thread, or of several.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Directions {
    of_sockets: Ways,
    of_files: Ways,
    /// Waits for data in calls for all files, nanoseconds, less those in calls for sockets.
    by_files: f64,
}

/// Samples in calls that send, and that receive.
#[derive(Debug, Default, Clone, Copy)]
struct Ways {
    sends: u64,
    receives: u64,
}

impl Directions {
    /// It was found there so often.
    pub(super) fn add(&mut self, site: Option<&Site>, n: u64) {
        let Some(call) = site.and_then(call) else {
            return;
        };
        for (calls, ways) in [
            (OF_SOCKETS, &mut self.of_sockets),
            (OF_FILES, &mut self.of_files),
        ] {
            if calls.send.contains(&call) {
                ways.sends = ways.sends.saturating_add(n);
            }
            if calls.receive.contains(&call) {
                ways.receives = ways.receives.saturating_add(n);
            }
        }
    }

    /// It waited at a socket.
    pub(super) fn waits(&mut self, view: &RunView, off: &OffCpu) {
        let site = off.site.and_then(|site| view.model.site(site));
        let call = site
            .and_then(call)
            .filter(|_| off.reason == OffReason::Socket);
        match call {
            Some(call) if OF_SOCKETS.receive.contains(&call) => self.by_files -= off.sum_ns as f64,
            Some(call) if OF_FILES.receive.contains(&call) => self.by_files += off.sum_ns as f64,
            _ => {}
        }
    }

    fn ways(&self) -> Ways {
        match self.by_files > 0.0 {
            true => self.of_files,
            false => self.of_sockets,
        }
    }

    /// Samples in calls that send.
    pub(super) fn sends(&self) -> u64 {
        self.ways().sends
    }

    /// Whether it was found to send no less than who asks would.
    pub(super) fn is_seen_to_ask(&self) -> bool {
        self.sends() > 0 && !self.only_receives()
    }

    /// Whether enough is known to say that it asks for nothing.
    pub(super) fn only_receives(&self) -> bool {
        let Ways { sends, receives } = self.ways();
        let known = sends.saturating_add(receives);
        known >= KNOWN && (sends as f64) < SENDS * known as f64
    }
}

impl std::ops::AddAssign for Directions {
    fn add_assign(&mut self, other: Self) {
        for (ways, more) in [
            (&mut self.of_sockets, other.of_sockets),
            (&mut self.of_files, other.of_files),
        ] {
            ways.sends = ways.sends.saturating_add(more.sends);
            ways.receives = ways.receives.saturating_add(more.receives);
        }
        self.by_files += other.by_files;
    }
}

/// The innermost function, by the name that the C library's documentation has for it.
fn call(site: &Site) -> Option<&str> {
    site.frames.first().map(|frame| bare(&frame.function))
}
