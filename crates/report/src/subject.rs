//! From a finding to the rows of the analysis that it is about.

use convoy_analysis::counters::{Analysis, Assignment, EventRow, LockRow};
use convoy_model::finding::{Finding, Subject};
use convoy_model::{
    GroupId, LoopId, Model, NameId, ObjectId, ProcessId, SiteId, SpinLoop, ThreadId,
};

/// The ids that a subject names, by noun.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    /// Objects.
    pub objects: Vec<ObjectId>,
    /// Sites.
    pub sites: Vec<SiteId>,
    /// Groups.
    pub groups: Vec<GroupId>,
    /// Threads.
    pub threads: Vec<ThreadId>,
    /// Processes.
    pub processes: Vec<ProcessId>,
    /// Waiting loops.
    pub loops: Vec<LoopId>,
    /// Files, pipes and sockets.
    pub names: Vec<NameId>,
}

/// Takes a subject apart.
pub fn ids(subject: &Subject) -> Ids {
    let mut ids = Ids::default();
    match subject {
        Subject::Object(object) => ids.objects.push(*object),
        Subject::Objects(objects) => ids.objects.clone_from(objects),
        Subject::Site(object, site) => {
            ids.objects.push(*object);
            ids.sites.push(*site);
        }
        Subject::Group(group) => ids.groups.push(*group),
        Subject::Groups(groups) => ids.groups.clone_from(groups),
        Subject::Thread(thread) => ids.threads.push(*thread),
        Subject::Code(site) => ids.sites.push(*site),
        Subject::Loop(id) => ids.loops.push(*id),
        Subject::Processes(processes) => ids.processes.clone_from(processes),
        Subject::File(name, site) => {
            ids.names.push(*name);
            ids.sites.push(*site);
        }
        Subject::Run => {}
    }
    ids
}

/// What kind of thing a subject is, for the JSON.
pub fn kind(subject: &Subject) -> &'static str {
    match subject {
        Subject::Object(_) => "object",
        Subject::Objects(_) => "objects",
        Subject::Site(..) => "site",
        Subject::Group(_) => "group",
        Subject::Groups(_) => "groups",
        Subject::Thread(_) => "thread",
        Subject::Code(_) => "code",
        Subject::Loop(_) => "loop",
        Subject::Processes(_) => "processes",
        Subject::File(..) => "file",
        Subject::Run => "run",
    }
}

/// The process that a finding is in; `None` for one about the whole program.
pub fn process(model: &Model, finding: &Finding) -> Option<ProcessId> {
    let ids = ids(&finding.subject);
    let object = ids
        .objects
        .first()
        .and_then(|id| model.objects.get(id.0 as usize));
    let group = ids
        .groups
        .first()
        .and_then(|id| model.groups.get(id.0 as usize));
    let thread = ids
        .threads
        .first()
        .and_then(|id| model.threads.get(id.0 as usize));
    let site = ids
        .sites
        .first()
        .and_then(|id| model.sites.get(id.0 as usize));
    let spin = ids.loops.first().and_then(|id| spin_loop(model, *id));
    object
        .map(|o| o.process)
        .or_else(|| group.map(|g| g.process))
        .or_else(|| thread.map(|t| t.process))
        .or_else(|| site.map(|s| s.process))
        .or_else(|| spin.map(|l| l.process))
        .or_else(|| ids.processes.first().copied())
}

/// A loop that waits on the processor, by its id.
pub fn spin_loop(model: &Model, id: LoopId) -> Option<&SpinLoop> {
    model.sched.as_ref()?.loops.get(id.0 as usize)
}

/// The row of the first lock that a finding is about.
pub fn lock<'a>(analysis: &'a Analysis, ids: &Ids) -> Option<&'a LockRow> {
    analysis
        .locks
        .iter()
        .find(|row| ids.objects.contains(&row.object))
}

/// The row of the first event object that a finding is about.
pub fn event<'a>(analysis: &'a Analysis, ids: &Ids) -> Option<&'a EventRow> {
    analysis
        .events
        .iter()
        .find(|row| ids.objects.contains(&row.object))
}

/// The place that a finding is about: the code itself, or where its object is waited for most, or
/// used most.
pub fn site(analysis: &Analysis, ids: &Ids) -> Option<SiteId> {
    let of_lock = || {
        let sites = &lock(analysis, ids)?.sites;
        let most = sites.iter().max_by_key(|s| (s.wait_ns, s.acquisitions))?;
        Some(most.site)
    };
    let of_event = || {
        let waits = event(analysis, ids)?.waits_for.first()?;
        Some(waits.waiter)
    };
    let code = ids.sites.first().copied();
    code.or_else(of_lock).or_else(of_event)
}

/// The best assignment of threads to the groups that a finding is about.
pub fn assignment<'a>(analysis: &'a Analysis, ids: &Ids) -> Option<&'a Assignment> {
    analysis
        .assignments
        .iter()
        .find(|a| ids.groups.iter().any(|group| a.groups.contains(group)))
}
