//! What a finding is about: its thread groups, and its process.

use convoy_model::finding::Subject;
use convoy_model::{GroupId, Model, ProcessId, SiteId};

/// The thread groups that a finding is about.
pub(crate) fn groups(model: &Model, subject: &Subject) -> Vec<GroupId> {
    match subject {
        Subject::Group(group) => vec![*group],
        Subject::Groups(groups) => groups.clone(),
        Subject::Thread(id) => {
            let thread = model.threads.get(id.0 as usize);
            thread.map(|th| th.group).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The process that a finding is in.
pub(crate) fn process(model: &Model, subject: &Subject) -> Option<ProcessId> {
    let of_site = |id: &SiteId| model.site(*id).map(|s| s.process);
    match subject {
        Subject::Code(site) | Subject::File(_, site) => of_site(site),
        Subject::Loop(id) => {
            let loops = &model.sched.as_ref()?.loops;
            loops.get(id.0 as usize).map(|l| l.process)
        }
        Subject::Processes(ids) => ids.first().copied(),
        Subject::Thread(id) => model.threads.get(id.0 as usize).map(|th| th.process),
        Subject::Group(_) | Subject::Groups(_) => {
            let group = groups(model, subject).first().copied()?;
            model.groups.get(group.0 as usize).map(|g| g.process)
        }
        Subject::Object(_) | Subject::Objects(_) | Subject::Site(..) => {
            let object = *subject.objects().first()?;
            model.objects.get(object.0 as usize).map(|o| o.process)
        }
        Subject::Run => None,
    }
}
