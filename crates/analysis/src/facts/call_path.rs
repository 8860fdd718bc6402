//! Which call stacks are one path: they go through the same functions, from the frame that is shown outwards.

use std::collections::{BTreeMap, HashMap};

use convoy_model::{Model, Site, SiteFrame, SiteId};

/// Frames that count; deeper ones (recursion) make no other path.
const DEPTH: usize = 48;

/// A call path, of one process unless it leads to a lock. 0 = unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PathId(pub(crate) u32);

/// Paths of the sites that were asked for.
pub(crate) struct CallPaths<'a> {
    model: &'a Model,
    /// Whether the line of the shown frame counts: two places in one function that wait are two.
    lines: bool,
    /// Whether they lead to locks: processes of one program may share these, and a monitor of Java's is one lock wherever
    /// the code around it was compiled to.
    to_locks: bool,
    by_site: HashMap<SiteId, PathId>,
    by_key: BTreeMap<Vec<String>, PathId>,
}

impl<'a> CallPaths<'a> {
    pub(crate) fn new(model: &'a Model, lines: bool) -> Self {
        Self {
            model,
            lines,
            to_locks: false,
            by_site: HashMap::new(),
            by_key: BTreeMap::new(),
        }
    }

    /// Paths at which locks are waited for, those of processes of one program in common.
    pub(crate) fn to_locks(model: &'a Model) -> Self {
        Self {
            to_locks: true,
            ..Self::new(model, false)
        }
    }

    pub(crate) fn of(&mut self, site: Option<SiteId>) -> PathId {
        let Some(site) = site else {
            return PathId::default();
        };
        if let Some(&id) = self.by_site.get(&site) {
            return id;
        }
        let id = match self.key(site) {
            Some(key) => {
                let next = PathId(self.by_key.len() as u32 + 1);
                *self.by_key.entry(key).or_insert(next)
            }
            None => PathId::default(),
        };
        self.by_site.insert(site, id);
        id
    }

    fn key(&self, id: SiteId) -> Option<Vec<String>> {
        let site = self.model.site(id)?;
        let frames = path_frames(self.model, id);
        let first = frames.first()?;
        let mut key = Vec::new();
        if !self.to_locks {
            key.push(site.process.0.to_string());
        }
        if self.lines {
            key.push(format!("{}:{}", first.file, first.line));
        }
        if self.to_locks && in_a_monitor(site) {
            key.push("a monitor".into());
        } else {
            key.extend(frames.iter().take(DEPTH).map(function_key));
        }
        Some(key)
    }
}

/// Whether a monitor of Java's is waited for in generated code that has no name. The same method is at many addresses,
/// interpreted and compiled ever better: they tell nothing.
fn in_a_monitor(site: &Site) -> bool {
    let inner = site.frames.get(..site.shown).unwrap_or_default();
    site.shown_frame()
        .is_some_and(SiteFrame::is_unnamed_generated)
        && inner
            .iter()
            .any(|frame| frame.function.starts_with("ObjectMonitor::"))
}

/// The frames of a path, from the one that is shown outwards.
pub(crate) fn path_frames(model: &Model, site: SiteId) -> &[SiteFrame] {
    let site = model.site(site);
    site.map_or(&[], |s| s.frames.get(s.shown..).unwrap_or(&s.frames))
}

/// What tells a function from others.
pub(crate) fn function_key(frame: &SiteFrame) -> String {
    match frame.function.as_str() {
        "" => format!("{}+{:x}", frame.module, frame.begins()),
        function => format!("{}!{function}", frame.module),
    }
}
