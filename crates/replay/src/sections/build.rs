//! Matching of acquires with releases, thread by thread.

use std::collections::{BTreeMap, HashMap, VecDeque};

use convoy_trace::{Event, Kind, ObjectIx, ObjectKind, Recording, SiteIx, Window, NO_SITE};

use super::open::{Closed, OpenSections};
use super::{ByLock, LocksetIx, Section, SectionIx, Sections, NO_WINDOW};

pub(super) fn build(recording: &Recording) -> Sections {
    let mut builder = Builder {
        recording,
        sections: Sections {
            locksets: vec![Vec::new()],
            ..Sections::default()
        },
        by_lockset: HashMap::from([(Vec::new(), 0)]),
        orphans: BTreeMap::new(),
        endless: Vec::new(),
    };
    for thread in 0..recording.threads.len() {
        builder.thread(thread as u32);
    }
    builder.adopt_orphans();
    builder.sections.by_lock = ByLock::of(&builder.sections.all);
    builder.sections
}

struct Builder<'r> {
    recording: &'r Recording,
    sections: Sections,
    by_lockset: HashMap<Vec<ObjectIx>, LocksetIx>,
    /// Releases by threads that did not hold the lock: by lock, time and site.
    orphans: BTreeMap<ObjectIx, Vec<(u64, SiteIx)>>,
    /// Sections whose own thread never released the lock, and until when they can have lasted.
    endless: Vec<(SectionIx, u64)>,
}

/// A blocking acquire that began and has not ended.
#[derive(Clone, Copy)]
struct Request {
    object: ObjectIx,
    at_ns: u64,
    shared: bool,
}

impl Builder<'_> {
    fn thread(&mut self, thread: u32) {
        let recording = self.recording;
        let Some(events) = recording.threads.get(thread as usize) else {
            return;
        };
        let mut reader = Reader {
            thread,
            open: OpenSections::default(),
            request: None,
            last_ns: 0,
            window: WindowCursor::new(&recording.windows),
        };
        for (ix, event) in events.events.iter().enumerate() {
            self.event(&mut reader, ix as u32, event);
            reader.last_ns = event.at_ns;
        }
        let end_ns = recording.end_ns.max(reader.last_ns);
        self.close_all(&mut reader, end_ns);
    }

    fn event(&mut self, reader: &mut Reader<'_>, ix: u32, event: &Event) {
        match event.kind {
            Kind::Request | Kind::RequestShared if self.is_lock(event.object) => {
                reader.request = Some(Request {
                    object: event.object,
                    at_ns: event.at_ns,
                    shared: event.kind == Kind::RequestShared,
                });
            }
            Kind::Acquired | Kind::AcquiredShared | Kind::TryAcquired => {
                let shared = match event.kind {
                    Kind::TryAcquired => event.arg == 1,
                    kind => kind == Kind::AcquiredShared,
                };
                let section = Section {
                    shared,
                    tried: event.kind == Kind::TryAcquired,
                    requested_ns: event.at_ns,
                    ..Section::default()
                };
                self.acquired(reader, ix, event, event.object, section);
            }
            Kind::AcquiredAfterWait => {
                let object = event.object;
                let request = reader.request.take();
                let request = request.filter(|request| request.object == object);
                let section = Section {
                    shared: request.is_some_and(|request| request.shared),
                    requested_ns: request.map_or(event.at_ns, |request| request.at_ns),
                    contended: true,
                    ..Section::default()
                };
                self.acquired(reader, ix, event, object, section);
            }
            Kind::TimedOut => {
                let object = event.object;
                if reader.request.take_if(|it| it.object == object).is_some() {
                    self.sections.gaps.timeouts += 1;
                }
            }
            Kind::Released => self.released(reader, event),
            Kind::CondWait => {
                let lock = lock_of_wait(event);
                match lock.and_then(|lock| reader.open.give_up(lock)) {
                    Some(section) => self.close(section, event, true),
                    None => self.sections.gaps.unmatched_releases += 1,
                }
            }
            Kind::CondWoken => {
                let section = Section {
                    requested_ns: event.at_ns,
                    reacquired: true,
                    ..Section::default()
                };
                if let Some(lock) = lock_of_wait(event) {
                    self.acquired(reader, ix, event, lock, section);
                }
            }
            Kind::Signal | Kind::Broadcast => {
                let all = &mut self.sections.all;
                reader.open.mark(all, |section| section.signals = true);
            }
            Kind::Preempted | Kind::OffCpu => {
                let all = &mut self.sections.all;
                reader.open.mark(all, |section| section.preempted = true);
            }
            Kind::Lost => {
                reader.request = None;
                let last_ns = reader.last_ns;
                // Nothing is known of the open sections from there on.
                self.close_all(reader, last_ns);
            }
            Kind::End => {
                let at_ns = event.at_ns;
                self.close_all(reader, at_ns);
            }
            _ => {}
        }
    }

    fn is_lock(&self, object: ObjectIx) -> bool {
        let object = self.recording.objects.get(object as usize);
        object.is_some_and(|object| is_lock_kind(object.kind))
    }

    fn acquired(
        &mut self,
        reader: &mut Reader<'_>,
        ix: u32,
        event: &Event,
        lock: ObjectIx,
        section: Section,
    ) {
        if !self.is_lock(lock) {
            return;
        }
        if let Some(outer) = reader.open.section_of(lock) {
            let is_cut = self.began_in_other_window(outer, event.at_ns, reader);
            if !is_cut && self.may_recurse(lock, section.shared) {
                self.sections.gaps.recursive += 1;
                reader.open.enter_again(lock);
                return;
            }
            // Its release is not recorded.
            reader.open.give_up(lock);
            self.cut(outer, event.at_ns);
        }
        let held = match reader.open.is_empty() {
            true => 0,
            false => self.lockset(reader.open.locks()),
        };
        let number = self.sections.all.len() as SectionIx;
        self.sections.all.push(Section {
            thread: reader.thread,
            lock,
            acquire_site: event.site,
            release_site: NO_SITE,
            acquire_event: ix,
            acquired_ns: event.at_ns,
            released_ns: event.at_ns,
            held,
            parent: reader.open.innermost(),
            window: reader.window.at(event.at_ns),
            ..section
        });
        reader.open.open(lock, number);
    }

    fn lockset(&mut self, locks: Vec<ObjectIx>) -> LocksetIx {
        let locksets = &mut self.sections.locksets;
        *self.by_lockset.entry(locks).or_insert_with_key(|locks| {
            locksets.push(locks.clone());
            locksets.len() as LocksetIx - 1
        })
    }

    /// Whether a thread can acquire a lock that it holds. Of a reader lock it can, of a mutex only if it
    /// is recursive; an unknown kind gets the benefit of the doubt.
    fn may_recurse(&self, lock: ObjectIx, shared: bool) -> bool {
        const TYPE_MASK: u32 = 3;
        const RECURSIVE: u32 = 1;
        let object = self.recording.objects.get(lock as usize);
        object.is_some_and(|object| match object.kind {
            ObjectKind::Mutex => object.attr & TYPE_MASK == RECURSIVE,
            ObjectKind::RwLock => shared,
            ObjectKind::Spin => false,
            _ => true,
        })
    }

    /// Whether a section and a time lie in different windows: releases between them are not recorded.
    fn began_in_other_window(
        &self,
        section: SectionIx,
        at_ns: u64,
        reader: &mut Reader<'_>,
    ) -> bool {
        let began = self.sections.all.get(section as usize);
        began.is_some_and(|began| began.window != reader.window.at(at_ns))
    }

    fn released(&mut self, reader: &mut Reader<'_>, event: &Event) {
        if !self.is_lock(event.object) {
            return;
        }
        match reader.open.release(event.object) {
            Closed::Section(section) => self.close(section, event, false),
            Closed::Inner => {}
            Closed::NotHeld => {
                let orphans = self.orphans.entry(event.object).or_default();
                orphans.push((event.at_ns, event.site));
            }
        }
    }

    fn close(&mut self, section: SectionIx, event: &Event, waits: bool) {
        if let Some(section) = self.sections.all.get_mut(section as usize) {
            section.released_ns = event.at_ns.max(section.acquired_ns);
            section.release_site = event.site;
            section.waits = waits;
        }
    }

    /// The end of a section is not recorded; it lasted at most until `limit_ns`.
    fn cut(&mut self, ix: SectionIx, limit_ns: u64) {
        let Some(section) = self.sections.all.get_mut(ix as usize) else {
            return;
        };
        let window = self.recording.windows.get(section.window as usize);
        let known_ns = window.map_or(limit_ns, |window| window.end_ns.min(limit_ns));
        section.released_ns = known_ns.max(section.acquired_ns);
        section.partial = true;
        self.endless.push((ix, limit_ns));
    }

    fn close_all(&mut self, reader: &mut Reader<'_>, limit_ns: u64) {
        let open: Vec<SectionIx> = reader.open.take_all().collect();
        for section in open {
            self.cut(section, limit_ns);
        }
    }

    /// Gives releases by other threads to the sections that they end.
    fn adopt_orphans(&mut self) {
        let mut orphans: BTreeMap<ObjectIx, VecDeque<(u64, SiteIx)>> = BTreeMap::new();
        for (lock, mut releases) in std::mem::take(&mut self.orphans) {
            releases.sort_unstable();
            orphans.insert(lock, releases.into());
        }
        let mut endless = std::mem::take(&mut self.endless);
        let all = &mut self.sections.all;
        endless.sort_unstable_by_key(|(ix, _)| all[*ix as usize].acquired_ns);
        for (ix, limit_ns) in endless {
            let section = &mut all[ix as usize];
            let releases = orphans.get_mut(&section.lock);
            let adopted = releases.and_then(|releases| {
                // Later sections of the lock begin later still.
                while releases.front()?.0 < section.acquired_ns {
                    releases.pop_front();
                    self.sections.gaps.unmatched_releases += 1;
                }
                let is_inside = releases.front()?.0 <= limit_ns;
                is_inside.then(|| releases.pop_front()).flatten()
            });
            match adopted {
                Some((at_ns, site)) => {
                    section.released_ns = at_ns;
                    section.release_site = site;
                    section.released_elsewhere = true;
                    section.partial = false;
                }
                None => self.sections.gaps.partial += 1,
            }
        }
        let left: usize = orphans.values().map(VecDeque::len).sum();
        self.sections.gaps.unmatched_releases += left as u64;
    }
}

/// State of one thread.
struct Reader<'r> {
    thread: u32,
    open: OpenSections,
    request: Option<Request>,
    last_ns: u64,
    window: WindowCursor<'r>,
}

/// Finds windows for times that do not fall.
struct WindowCursor<'r> {
    windows: &'r [Window],
    at: usize,
}

impl<'r> WindowCursor<'r> {
    fn new(windows: &'r [Window]) -> Self {
        Self { windows, at: 0 }
    }

    fn at(&mut self, at_ns: u64) -> u32 {
        while self.windows.get(self.at).is_some_and(|w| w.end_ns <= at_ns) {
            self.at += 1;
        }
        let window = self.windows.get(self.at);
        match window.is_some_and(|window| window.start_ns <= at_ns) {
            true => self.at as u32,
            false => NO_WINDOW,
        }
    }
}

fn lock_of_wait(event: &Event) -> Option<ObjectIx> {
    ObjectIx::try_from(event.arg).ok()
}

fn is_lock_kind(kind: ObjectKind) -> bool {
    use ObjectKind::{Mutex, OmpLock, RwLock, Spin, Unknown};
    matches!(kind, Mutex | RwLock | Spin | OmpLock | Unknown)
}
