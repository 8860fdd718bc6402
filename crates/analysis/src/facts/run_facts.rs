//! Facts about a recording with scheduler events that its detectors share.

use std::collections::BTreeMap;

use convoy_model::finding::{Finding, Subject};
use convoy_model::{FunctionKey, ProcessId, SiteId};

use crate::detectors::write_through::WrittenThrough;
use crate::facts::blocking_chain::PassedOn;
use crate::facts::goroutines::{self, Kinds};
use crate::facts::idle_program;
use crate::facts::request_queue::Askers;
use crate::facts::run_view::RunView;
use crate::facts::subject;
use crate::facts::syscall_time::InCall;
use crate::facts::wait_attribution::WaitedFor;
use crate::tables::scheduler::Analysis;

/// What all findings are made from.
pub(crate) struct RunFacts<'a> {
    pub(crate) view: &'a RunView<'a>,
    pub(crate) rows: &'a Analysis,
    pub(crate) waited_for: WaitedFor,
    pub(crate) in_call: InCall,
    pub(crate) passed_on: PassedOn,
    pub(crate) askers: Askers,
    pub(crate) goroutines: BTreeMap<ProcessId, Kinds<'a>>,
    pub(crate) written_through: WrittenThrough,
    /// The program is idle most of the time, as nobody asks for anything.
    pub(crate) nobody_asks: bool,
}

impl<'a> RunFacts<'a> {
    pub(crate) fn of(view: &'a RunView<'a>, rows: &'a Analysis) -> Self {
        let mut cx = Self {
            view,
            rows,
            waited_for: WaitedFor::of(view),
            in_call: InCall::of(view),
            passed_on: PassedOn::of(view),
            askers: Askers::of(view),
            goroutines: goroutines::by_start(view),
            written_through: WrittenThrough::default(),
            nobody_asks: idle_program::nobody_asks(view),
        };
        cx.written_through = WrittenThrough::of(&cx);
        cx
    }

    /// Whether it is worth its fix. What is not, leaves the low parallelism to be explained otherwise.
    pub(crate) fn is_worth(&self, finding: &Finding) -> bool {
        finding.gain.mid >= self.view.t.gain_mid
    }

    pub(crate) fn process(&self, finding: &Finding) -> Option<ProcessId> {
        subject::process(self.view.model, &finding.subject)
    }

    pub(crate) fn function(&self, site: SiteId) -> Option<FunctionKey<'a>> {
        self.view.shown(site).map(|frame| frame.key())
    }
}

/// Where a finding is.
pub(crate) fn site(subject: &Subject) -> Option<SiteId> {
    match subject {
        Subject::Code(site) | Subject::Site(_, site) | Subject::File(_, site) => Some(*site),
        _ => None,
    }
}
