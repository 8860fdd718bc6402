//! What to call things: short enough for a line, exact enough to find them.

use convoy_model::{Group, Model, Object, ObjectId, Site, SiteFrame, SiteId, Thread, ThreadId};
use convoy_profile::{ObjectKind, Op};

/// `function file:line`, or as much of it as is known: `function (module)`, `module+0x1f40`.
pub fn frame(frame: &SiteFrame) -> String {
    if frame.function.is_empty() {
        return place_in_module(frame);
    }
    let function = shorten(&frame.function);
    if !frame.file.is_empty() {
        return format!("{function} {}", file_line(frame));
    }
    if frame.module.is_empty() {
        function
    } else {
        format!("{function} ({})", frame.module)
    }
}

/// `file:line` with the file's last component only; the JSON has the whole path.
pub fn file_line(frame: &SiteFrame) -> String {
    let file = frame.file.rsplit('/').next().unwrap_or_default();
    if frame.line == 0 {
        file.to_owned()
    } else {
        format!("{file}:{}", frame.line)
    }
}

fn place_in_module(frame: &SiteFrame) -> String {
    if frame.module.is_empty() {
        return format!("code at 0x{:x}", frame.offset);
    }
    format!("{}+0x{:x}", frame.module, frame.offset)
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
    model.sites.get(id.0 as usize).map_or_else(|| "unknown place".into(), site)
}

/// The frame to show, if the stack has any.
pub fn shown(site: &Site) -> Option<&SiteFrame> {
    site.frames.get(site.shown).or_else(|| site.frames.first())
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
    model.objects.get(id.0 as usize).map_or_else(|| "unknown object".into(), object)
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
    model.threads.get(id.0 as usize).map_or_else(|| "unknown thread".into(), thread)
}

/// A group's name; its start routine where it has none.
pub fn group(group: &Group) -> String {
    if !group.name.is_empty() {
        return clip_name(&group.name);
    }
    group.start.as_ref().map_or_else(|| "unnamed threads".into(), frame)
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

/// A function's name without template arguments, parameters, return type, hashes and clone marks.
///
/// Long names still are cut in the middle: their end tells methods of one class apart.
pub fn shorten(function: &str) -> String {
    let base = strip_suffixes(function);
    let mut out = String::with_capacity(base.len());
    let chars: Vec<char> = base.chars().collect();
    let mut i = 0;
    while i < chars.len() {
        if let Some(length) = operator_at(&chars, i) {
            out.extend(&chars[i..i + length]);
            i += length;
            continue;
        }
        match chars[i] {
            '<' if keeps_angle(&chars, i) => {
                // Rust's `<Type as Trait>::method`: the type is the name.
                let end = closing(&chars, i, '<', '>');
                let inner: String = chars[i + 1..end].iter().collect();
                let subject = inner.split(" as ").next().unwrap_or_default();
                out.push_str(&shorten(subject));
                i = end + 1;
            }
            '<' => i = closing(&chars, i, '<', '>') + 1,
            '(' => {
                let end = closing(&chars, i, '(', ')');
                let inner: String = chars[(i + 1).min(end)..end].iter().collect();
                if inner == "anonymous namespace" {
                    out.push_str("(anon)");
                }
                i = end + 1;
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
    let out = out.trim_end_matches(" const").trim().replace("::__cxx11", "");
    let out = out.replace("::{{closure}}", "::{closure}");
    let out = without_return_type(&out);
    clip(out, 48)
}

/// Length of an `operator` name whose brackets are part of it.
fn operator_at(chars: &[char], at: usize) -> Option<usize> {
    const WORD: &str = "operator";
    let is_start = at == 0 || !(chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if !is_start || !chars[at..].iter().take(WORD.len()).copied().eq(WORD.chars()) {
        return None;
    }
    let rest: String = chars[at + WORD.len()..].iter().take(3).collect();
    ["()", "<=>", "<<=", ">>=", "<<", ">>", "<=", ">=", "->*", "->", "<", ">"]
        .iter()
        .find(|symbol| rest.starts_with(**symbol))
        .map(|symbol| WORD.len() + symbol.len())
}

/// Whether the `<` begins a name instead of following one.
fn keeps_angle(chars: &[char], at: usize) -> bool {
    at == 0 || matches!(chars[at - 1], ':' | ' ' | '&' | '(') && at + 1 < chars.len()
}

/// Index of the bracket that closes the one at `open`, or the last index.
fn closing(chars: &[char], open: usize, left: char, right: char) -> usize {
    let mut depth = 0usize;
    for (i, &c) in chars.iter().enumerate().skip(open) {
        let arrow = c == '>' && i > 0 && chars[i - 1] == '-';
        if c == left {
            depth += 1;
        } else if c == right && !arrow {
            depth -= 1;
            if depth == 0 {
                return i;
            }
        }
    }
    chars.len() - 1
}

fn strip_suffixes(name: &str) -> &str {
    let name = name.split(" [clone").next().unwrap_or(name);
    let name = match name.rsplit_once("::h") {
        Some((front, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            front
        }
        _ => name,
    };
    match name.find('.') {
        // GCC's clones: foo.isra.0, foo.part.1.cold, foo.constprop.0. Not names that begin with a dot.
        Some(dot) if dot > 0 && is_clone_mark(&name[dot..]) => &name[..dot],
        _ => name,
    }
}

fn is_clone_mark(tail: &str) -> bool {
    [".isra", ".part", ".constprop", ".cold", ".lto_priv", ".llvm"]
        .iter()
        .any(|mark| tail.starts_with(mark))
}

/// Demangled templates carry their return type: `void work<int>(int)`.
fn without_return_type(name: &str) -> &str {
    if name.contains("operator ") {
        return name;
    }
    name.rsplit_once(' ').map_or(name, |(_, last)| last)
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
    fn functions_lose_what_does_not_tell_them_apart() {
        for (full, short) in [
            ("main", "main"),
            ("", ""),
            ("work(int, char const*)", "work"),
            ("void work<int>(int)", "work"),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector::push_back"),
            ("Cache::get(std::__cxx11::basic_string<char>) const", "Cache::get"),
            ("(anonymous namespace)::Pool::run()", "(anon)::Pool::run"),
            ("main::{lambda()#1}::operator()() const", "main::{lambda#1}::operator()"),
            ("bool operator<(A const&, A const&)", "operator<"),
            ("std::ostream& std::operator<<(std::ostream&, char)", "std::operator<<"),
            ("Box::operator->() const", "Box::operator->"),
            ("operator new(unsigned long)", "operator new"),
            ("app::main::{{closure}}::h0123456789abcdef", "app::main::{closure}"),
            ("<app::Job as core::ops::Drop>::drop", "app::Job::drop"),
            ("core::ptr::drop_in_place<std::sync::MutexGuard<i32>>", "core::ptr::drop_in_place"),
            ("fold.isra.0", "fold"),
            ("fold.part.1.cold", "fold"),
            ("main._omp_fn.0", "main._omp_fn.0"),
            ("grow(int) [clone .cold]", "grow"),
            ("broken<unclosed", "broken"),
            ("broken(unclosed", "broken"),
        ] {
            assert_eq!(shorten(full), short, "{full}");
        }
    }

    #[test]
    fn long_names_keep_both_ends() {
        let long = format!("start_{}_end", "x".repeat(100));
        let short = shorten(&long);
        assert_eq!(short.chars().count(), 48);
        assert!(short.starts_with("start_") && short.ends_with("_end"), "{short}");
    }

    #[test]
    fn frames_say_as_much_as_is_known() {
        let full = SiteFrame {
            function: "work(int)".into(),
            file: "/src/deep/a.c".into(),
            line: 7,
            module: "app".into(),
            ..SiteFrame::default()
        };
        assert_eq!(frame(&full), "work a.c:7");
        assert_eq!(frame(&SiteFrame { line: 0, ..full.clone() }), "work a.c");
        assert_eq!(frame(&SiteFrame { file: String::new(), ..full.clone() }), "work (app)");
        let bare = SiteFrame { module: "app".into(), offset: 0x1f40, ..SiteFrame::default() };
        assert_eq!(frame(&bare), "app+0x1f40");
        assert_eq!(frame(&SiteFrame { offset: 0x99, ..SiteFrame::default() }), "code at 0x99");
    }
}
