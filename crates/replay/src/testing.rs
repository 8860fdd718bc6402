//! Hand-written recordings for unit tests: one line an event, times in nanoseconds.
//!
//! ```text
//! thread a
//! 10 lock L @1       acquired at once, call site 1
//! 20 want L @1       the lock is taken
//! 90 got L @1        ... and now it is held
//! 95 unlock L @2
//! ```

use std::collections::BTreeMap;

use convoy_trace::{
    Event, Kind, Object, ObjectKind, Recording, Site, SiteIx, Thread, Window, NO_CPU, NO_OBJECT,
    NO_SITE,
};

/// Reads a recording. Names that begin with `L` are mutexes, `R` reader-writer locks, `C` condition
/// variables, `M` recursive mutexes; any name gets the next object number when it is first seen.
pub(crate) fn recording(text: &str) -> Recording {
    let mut reader = Reader::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["thread", name] => reader.thread(name),
            ["window", start, end] => reader.recording.windows.push(Window {
                start_ns: number(start),
                end_ns: number(end),
            }),
            [at, verb, rest @ ..] => reader.event(number(at), verb, rest),
            _ => panic!("no event: {line}"),
        }
    }
    reader.finish()
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

#[derive(Default)]
struct Reader {
    recording: Recording,
    objects: BTreeMap<String, u32>,
    sites: BTreeMap<u64, SiteIx>,
}

impl Reader {
    fn thread(&mut self, name: &str) {
        let threads = &mut self.recording.threads;
        let number = threads.len() as u32;
        threads.push(Thread {
            profile_thread: number,
            tid: 100 + number,
            name: name.to_owned(),
            events: Vec::new(),
        });
    }

    fn object(&mut self, name: &str) -> u32 {
        if let Some(&ix) = self.objects.get(name) {
            return ix;
        }
        let (kind, attr) = match name.as_bytes().first() {
            Some(b'R') => (ObjectKind::RwLock, 0),
            Some(b'C') => (ObjectKind::Cond, 0),
            Some(b'M') => (ObjectKind::Mutex, 1),
            _ => (ObjectKind::Mutex, 0),
        };
        let ix = self.recording.objects.len() as u32;
        self.recording.objects.push(Object {
            addr: 0x1000 + u64::from(ix) * 0x40,
            kind,
            profile_object: Some(ix),
            attr,
        });
        self.objects.insert(name.to_owned(), ix);
        ix
    }

    fn site(&mut self, pc: u64) -> SiteIx {
        let sites = &mut self.recording.sites;
        *self.sites.entry(pc).or_insert_with(|| {
            sites.push(Site {
                pc,
                frame: pc as u32,
                stack: 0,
            });
            sites.len() as SiteIx - 1
        })
    }

    fn event(&mut self, at_ns: u64, verb: &str, rest: &[&str]) {
        let mut event = Event {
            at_ns,
            object: NO_OBJECT,
            site: NO_SITE,
            cpu: NO_CPU,
            kind: kind_of(verb),
            ..Event::default()
        };
        event.arg = u64::from(verb == "tryrd");
        let mut names = 0;
        for word in rest {
            match word.strip_prefix('@') {
                Some(pc) => event.site = self.site(number(pc)),
                None if names == 0 => event.object = self.object(word),
                None => event.arg = u64::from(self.object(word)),
            }
            names += usize::from(!word.starts_with('@'));
        }
        let thread = self.recording.threads.last_mut().expect("thread first");
        thread.events.push(event);
        self.recording.end_ns = self.recording.end_ns.max(at_ns);
    }

    fn finish(mut self) -> Recording {
        if self.recording.windows.is_empty() {
            self.recording.windows.push(Window {
                start_ns: 0,
                end_ns: self.recording.end_ns + 1,
            });
        }
        self.recording.cpus = 2;
        self.recording
    }
}

fn kind_of(verb: &str) -> Kind {
    match verb {
        "lock" => Kind::Acquired,
        "rdlock" => Kind::AcquiredShared,
        "want" => Kind::Request,
        "wantrd" => Kind::RequestShared,
        "got" => Kind::AcquiredAfterWait,
        "try" | "tryrd" => Kind::TryAcquired,
        "tryfail" => Kind::TryFailed,
        "timeout" => Kind::TimedOut,
        "unlock" => Kind::Released,
        "woke" => Kind::Woke,
        "wait" => Kind::CondWait,
        "woken" => Kind::CondWoken,
        "signal" => Kind::Signal,
        "broadcast" => Kind::Broadcast,
        "preempted" => Kind::Preempted,
        "off" => Kind::OffCpu,
        "lost" => Kind::Lost,
        "end" => Kind::End,
        other => panic!("no verb: {other}"),
    }
}
