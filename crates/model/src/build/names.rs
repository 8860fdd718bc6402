//! What objects are called: what a developer would search for.
//!
//! Best first: the variable that holds it; where it was initialised; whose stack it is on; where it is
//! waited for or used most. An address says nothing to anybody and comes last.

use std::cell::RefCell;

use convoy_profile::{Memory, ObjectIx, ObjectKind, Process, Symbol};
use rustc_hash::FxHashMap;

use super::futex;
use super::objects::Objects;
use super::threads::Threads;
use crate::kinds::noun;
use crate::programs::base_name;
use crate::{Model, ObjectId, SiteFrame, SiteId, Use};

/// Names the objects of one process. Needs its uses, sites, threads and groups.
pub(super) fn name(model: &mut Model, process: &Process, objects: &Objects, threads: &Threads) {
    let main_uses = main_uses(&model.uses, objects);
    let mut taken: FxHashMap<String, u32> = FxHashMap::default();
    let labels = RefCell::default();
    for id in objects.range() {
        let main_use = main_uses.get(&id).copied();
        if model.objects[id.0 as usize].kind == ObjectKind::Futex {
            model.objects[id.0 as usize].futex_of =
                main_use.and_then(|m| futex::owner(&model.sites[m.site.0 as usize]));
        }
        let name = Namer {
            model,
            process,
            objects,
            threads,
            labels: &labels,
        }
        .name(id, main_use.map(|m| m.site));
        model.objects[id.0 as usize].name = match taken.get_mut(&name) {
            Some(times) => {
                *times += 1;
                format!("{name} #{times}")
            }
            None => {
                taken.insert(name.clone(), 1);
                name
            }
        };
    }
}

/// The use that says most of an object.
#[derive(Debug, Clone, Copy)]
struct MainUse {
    site: SiteId,
    weight: (u64, u64),
}

fn main_uses(uses: &[Use], objects: &Objects) -> FxHashMap<ObjectId, MainUse> {
    let mut main: FxHashMap<ObjectId, MainUse> = FxHashMap::default();
    // Those of earlier processes come first.
    let first = uses.partition_point(|row| row.object < objects.first());
    for row in &uses[first..] {
        let this = MainUse {
            site: row.site,
            weight: (row.wait_ns, row.calls),
        };
        let best = main.entry(row.object).or_insert(this);
        if this.weight > best.weight {
            *best = this;
        }
    }
    main
}

struct Namer<'a> {
    model: &'a Model,
    process: &'a Process,
    objects: &'a Objects,
    threads: &'a Threads,
    /// What sites are called: a hundred thousand locks may come from one.
    labels: &'a RefCell<FxHashMap<SiteId, Option<String>>>,
}

impl Namer<'_> {
    /// Where the body of a parallel region begins: the call that starts it may have the line of the loop
    /// around it. GCC calls the body of the first region of `f` `f._omp_fn.0`.
    fn region_at(&self, object: ObjectIx) -> Option<String> {
        let count = self.process.counts.iter().find(|c| c.object == object)?;
        let frame = self.process.frames.get(count.frame as usize)?;
        let Symbol::Known(locations) = &frame.symbol else {
            return None;
        };
        let body = locations.last()?;
        let (function, _) = body.function.split_once("._omp_fn.")?;
        let frame = SiteFrame {
            function: function.to_owned(),
            file: body.file.clone()?,
            line: body.line?,
            ..SiteFrame::default()
        };
        Some(frame.label())
    }

    fn name(&self, id: ObjectId, used_at: Option<SiteId>) -> String {
        let object = &self.model.objects[id.0 as usize];
        let Some(ix) = self.objects.record(id) else {
            return format!("{} not told apart", noun(object.kind));
        };
        let record = &self.process.objects[ix as usize];
        let noun = object
            .futex_of
            .map_or_else(|| noun(object.kind), futex::noun);
        if object.kind == ObjectKind::Thread {
            return self.thread_at(object.addr);
        }
        let used_at = used_at.and_then(|site| self.label(site));
        if object.kind == ObjectKind::OmpRegion {
            return match (self.region_at(ix).or(used_at), &record.symbol) {
                (Some(place), _) => format!("{noun} in {place}"),
                (None, Some(symbol)) => format!("{noun} {}", symbol.trim_end_matches("+0x0")),
                (None, None) => format!("{noun} 0x{:x}", object.addr),
            };
        }
        if let Some(symbol) = &record.symbol {
            return static_name(symbol);
        }
        if let Some(place) = object.init_site.and_then(|site| self.label(site)) {
            return format!("{noun} initialised in {place}");
        }
        if let Memory::Stack(thread) = record.memory {
            if let Some(name) = self.thread_name(thread) {
                return format!("{noun} on the stack of {name}");
            }
        }
        if let Some(place) = used_at {
            return format!("{noun} used in {place}");
        }
        let module = record
            .module
            .and_then(|ix| self.process.modules.get(ix as usize));
        match (module, record.memory) {
            (Some(module), _) => {
                let offset = object.addr.wrapping_sub(module.bias);
                format!("{noun} at {}+0x{offset:x}", base_name(&module.path))
            }
            (None, Memory::Heap) => format!("{noun} 0x{:x} (heap)", object.addr),
            (None, _) => format!("{noun} 0x{:x}", object.addr),
        }
    }

    fn label(&self, site: SiteId) -> Option<String> {
        let mut labels = self.labels.borrow_mut();
        let label = labels.entry(site).or_insert_with(|| {
            let site = self.model.sites.get(site.0 as usize)?;
            let frame = site.shown_frame()?;
            Some(frame.label())
        });
        label.clone()
    }

    fn thread_name(&self, ix: u32) -> Option<String> {
        let thread = &self.model.threads[self.threads.id(ix)?.0 as usize];
        if thread.main {
            return Some("the main thread".into());
        }
        let group = self.model.groups.get(thread.group.0 as usize)?;
        // A name that was only inherited from the process says nothing.
        Some(match group.name_pattern.as_str() {
            "" => format!("a thread of {}", group.name),
            _ => format!("thread {}", thread.name),
        })
    }

    /// A thread that was joined. Its `pthread_t` lies in its stack mapping; several threads that used
    /// one mapping in turn cannot be told apart.
    fn thread_at(&self, handle: u64) -> String {
        let mut names: Vec<String> = Vec::new();
        for (ix, thread) in self.process.threads.iter().enumerate() {
            if (thread.stack_lo..=thread.stack_hi).contains(&handle) && thread.stack_lo != 0 {
                names.extend(self.thread_name(ix as u32));
            }
        }
        names.sort_unstable();
        names.dedup();
        match names.as_slice() {
            [] => format!("thread 0x{handle:x}"),
            [name] => name.clone(),
            [first, .., last] => format!("{first} or {last}"),
        }
    }
}

/// `mem0+0x0` is `mem0`; GCC holds `#pragma omp critical (io)` in `.gomp_critical_user_io`.
fn static_name(symbol: &str) -> String {
    let symbol = symbol.strip_suffix("+0x0").unwrap_or(symbol);
    match symbol.strip_prefix(".gomp_critical_user_") {
        Some(name) => format!("critical section {}", name.trim_start_matches('&')),
        None => symbol.to_owned(),
    }
}
