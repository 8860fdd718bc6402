//! What to call things: short enough for a line, exact enough to find them.

use convoy_model::{Group, Model, Object, ObjectId, Site, SiteFrame, SiteId, Thread, ThreadId};
use convoy_profile::{ObjectKind, Op};

/// `function() file:line`, or as much of it as is known.
pub fn frame(frame: &SiteFrame) -> String {
    clip(&frame.label(), 80)
}

/// The frame of a call stack that tells most.
pub fn site(site: &Site) -> String {
    match shown(site) {
        Some(shown) => frame(shown),
        None => "unknown place".into(),
    }
}

/// The same by id; an id from nowhere is an unknown place too.
pub fn site_of(model: &Model, id: SiteId) -> String {
    model
        .sites
        .get(id.0 as usize)
        .map_or_else(|| "unknown place".into(), site)
}

/// The frame to show, if the stack has any.
pub fn shown(site: &Site) -> Option<&SiteFrame> {
    site.shown_frame()
}

/// What an object is called; its address where nothing better is known.
pub fn object(object: &Object) -> String {
    if object.name.is_empty() {
        format!("{} 0x{:x}", kind(object.kind), object.addr)
    } else {
        clip_name(&object.name)
    }
}

/// The same by id.
pub fn object_of(model: &Model, id: ObjectId) -> String {
    model
        .objects
        .get(id.0 as usize)
        .map_or_else(|| "unknown object".into(), object)
}

/// `name (tid)`, or `thread tid`.
pub fn thread(thread: &Thread) -> String {
    if thread.name.is_empty() {
        format!("thread {}", thread.tid)
    } else {
        format!("{} ({})", thread.name, thread.tid)
    }
}

/// The same by id.
pub fn thread_of(model: &Model, id: ThreadId) -> String {
    model
        .threads
        .get(id.0 as usize)
        .map_or_else(|| "unknown thread".into(), thread)
}

/// A group's name; its start routine where it has none.
pub fn group(group: &Group) -> String {
    if !group.name.is_empty() {
        return clip_name(&group.name);
    }
    group
        .start
        .as_ref()
        .map_or_else(|| "unnamed threads".into(), frame)
}

/// What kind of thing is waited for.
pub fn kind(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Unknown => "object",
        ObjectKind::Mutex => "mutex",
        ObjectKind::RwLock => "rwlock",
        ObjectKind::Spin => "spin lock",
        ObjectKind::Cond => "condition variable",
        ObjectKind::Barrier => "barrier",
        ObjectKind::Sem => "semaphore",
        ObjectKind::Thread => "thread end",
        ObjectKind::Once => "once",
        ObjectKind::Futex => "futex",
        ObjectKind::OmpLock => "OpenMP lock",
        ObjectKind::OmpCritical => "OpenMP critical",
        ObjectKind::OmpBarrier => "OpenMP barrier",
        ObjectKind::OmpRegion => "OpenMP region end",
    }
}

/// The call, as its library spells it.
pub fn op(op: Op) -> &'static str {
    match op {
        Op::MutexLock => "mutex_lock",
        Op::MutexTimedlock => "mutex_timedlock",
        Op::RwlockRd => "rwlock_rdlock",
        Op::RwlockWr => "rwlock_wrlock",
        Op::RwlockTimedrd => "rwlock_timedrdlock",
        Op::RwlockTimedwr => "rwlock_timedwrlock",
        Op::SpinLock => "spin_lock",
        Op::OmpLock => "omp_set_lock",
        Op::OmpCritical => "omp critical",
        Op::MutexTrylock => "mutex_trylock",
        Op::RwlockTryrd => "rwlock_tryrdlock",
        Op::RwlockTrywr => "rwlock_trywrlock",
        Op::SpinTrylock => "spin_trylock",
        Op::SemTrywait => "sem_trywait",
        Op::OmpTrylock => "omp_test_lock",
        Op::CondWait => "cond_wait",
        Op::CondTimedwait => "cond_timedwait",
        Op::BarrierWait => "barrier_wait",
        Op::SemWait => "sem_wait",
        Op::SemTimedwait => "sem_timedwait",
        Op::Join => "join",
        Op::Once => "once",
        Op::FutexWait => "futex_wait",
        Op::OmpBarrier => "omp barrier",
        Op::OmpRegion => "omp region end",
        Op::CondSignal => "cond_signal",
        Op::CondBroadcast => "cond_broadcast",
        Op::SemPost => "sem_post",
        Op::FutexWake => "futex_wake",
    }
}

/// Names that the model composed ("mutex from cache_new() items.c:41") are short already, save
/// those of deep templates.
fn clip_name(name: &str) -> String {
    clip(name, 72)
}

/// At most `max` characters, the middle replaced by dots.
pub fn clip(text: &str, max: usize) -> String {
    let length = text.chars().count();
    if length <= max || max < 5 {
        return text.to_owned();
    }
    let head = (max - 2) / 2;
    let tail = max - 2 - head;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}..{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        let long = format!("start_{}_end", "x".repeat(100));
        let short = clip(&long, 48);
        assert_eq!(short.chars().count(), 48);
        assert!(
            short.starts_with("start_") && short.ends_with("_end"),
            "{short}"
        );
        assert_eq!(clip("short", 48), "short");
    }

    #[test]
    fn what_has_no_name_is_known_by_its_address() {
        let nameless = Object {
            addr: 0x40,
            kind: ObjectKind::Mutex,
            ..Object::default()
        };
        assert_eq!(object(&nameless), "mutex 0x40");
        assert_eq!(site(&Site::default()), "unknown place");
        assert_eq!(
            thread(&Thread {
                tid: 7,
                ..Thread::default()
            }),
            "thread 7"
        );
        assert_eq!(group(&Group::default()), "unnamed threads");
    }
}
