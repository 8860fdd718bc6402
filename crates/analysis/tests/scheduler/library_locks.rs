//! Locks inside of the C library that no agent counts: which waits are for one of them, and what is advised.

use convoy_model::finding::Finding;
use convoy_model::{FindingId, OffReason, SpinKind};
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, ProfileBuilder};

use crate::kit::{analysis, model, workers};

/// Where a thread waits in the program and in the C library, and at which words.
type Waits<'a> = (&'a str, &'a [&'a str], &'a [u64]);

/// What is said of threads that take turns, 1 ms each. Every one waits at its words in turn, and is
/// woken by the one before it.
fn contended(threads: &[Waits]) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("app");
    p.cpus(threads.len() as u32).raw().without_agent = true;
    let libc = p.module("libc.so.6");
    let at = |p: &mut ProfileBuilder, place: &str, functions: &[&str]| {
        let inner = functions.iter().map(|f| p.frame_in(libc, f, "", 0));
        let inner: Vec<_> = inner.collect();
        let place = p.frame(place, "a.c", 7);
        p.stack(&[inner, vec![place]].concat())
    };
    let ids = workers(&mut p, threads.len());
    let mut s = Schedule::new();
    for (ix, &(place, functions, words)) in threads.iter().enumerate() {
        let wait = at(&mut p, place, functions);
        let work = at(&mut p, place, &[]);
        let before = (ix + threads.len() - 1) % threads.len();
        let wake = at(
            &mut p,
            threads[before].0,
            &["__lll_lock_wake_private", "free"],
        );
        let lock = |word| Wait::futex(wait, word).woken_by(ids[before], wake);
        s.waits(ids[ix], lock(words[0]), ms(1 + ix as u64));
        for round in 0..100 {
            s.runs(ids[ix], work, ms(1));
            let word = words[round % words.len()];
            s.waits(ids[ix], lock(word), ms(threads.len() as u64 - 1));
        }
    }
    let found = analysis(&model(p, s)).findings.into_iter();
    found
        .filter(|f| f.id == FindingId::ContendedFutex)
        .collect()
}

const MALLOC: &[&str] = &["__lll_lock_wait_private", "malloc"];
const FREE: &[&str] = &["__lll_lock_wait_private", "_int_free", "__libc_free"];

fn title(threads: &[Waits]) -> String {
    let found = contended(threads);
    assert_eq!(found.len(), 1, "{found:#?}");
    found[0].title.clone()
}

/// How many threads wait for one lock in each finding.
fn together(threads: &[Waits]) -> Vec<String> {
    let titles = contended(threads).into_iter().map(|f| f.title);
    titles
        .map(|title| title.split(" of ").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn what_waits_at_one_word_is_one_lock_wherever_it_is_called() {
    let both = |word| [("parse", MALLOC, &[0x7000][..]), ("render", FREE, word)];
    assert_eq!(together(&both(&[0x7000])), ["2 threads"]);
    // Who is alone with a lock waits for nobody.
    assert_eq!(together(&both(&[0x8000])), [""; 0]);
}

#[test]
fn places_that_share_a_word_with_a_third_one_are_one_lock() {
    assert_eq!(
        together(&[
            ("parse", MALLOC, &[0x7000]),
            ("store", MALLOC, &[0x8000]),
            ("render", MALLOC, &[0x7000, 0x8000]),
        ]),
        ["3 threads"]
    );
}

#[test]
fn a_place_that_leads_to_many_locks_joins_nothing() {
    let words = [0x7000, 0x8000, 0x9000, 0xa000, 0xb000];
    let both = |n| {
        [
            ("parse", MALLOC, &words[..n]),
            ("render", FREE, &words[..n]),
        ]
    };
    assert_eq!(together(&both(4)), ["2 threads"]);
    assert_eq!(together(&both(5)), [""; 0]);
}

/// A thread of Java waits at a word of its own for whichever monitor: that word tells nothing of the lock. Nor does one in
/// functions of which nobody knows what they wait for.
#[test]
fn only_the_word_of_a_lock_tells_which_one_it_is() {
    let words = &[0x7000][..];
    let in_two = |function| {
        let functions = &[function][..];
        together(&[("parse", functions, words), ("render", functions, words)])
    };
    assert_eq!(in_two("__lll_lock_wait_private"), ["2 threads"]);
    assert_eq!(in_two("ObjectMonitor::enter"), [""; 0]);
    assert_eq!(in_two("syscall"), [""; 0]);
}

/// Two processes, each with two threads that wait in two functions for two locks. What one of them waits for in the one
/// function is at the address at which the other waits in its other function.
#[test]
fn addresses_of_two_processes_are_no_word_in_common() {
    let mut p = ProfileBuilder::new("app");
    p.cpus(4);
    let mut s = Schedule::new();
    for process in 0..2 {
        if process > 0 {
            p.process("app");
        }
        p.raw().without_agent = true;
        let libc = p.module("libc.so.6");
        let mut at = |leaf: &str, place: &str| {
            let frames = [p.frame_in(libc, leaf, "", 0), p.frame(place, "a.c", 7)];
            p.stack(&frames)
        };
        let places = ["parse", "render"].map(|place| {
            let wait = at("__lll_lock_wait_private", place);
            (
                wait,
                at("__lll_lock_wake_private", place),
                at("work", place),
            )
        });
        let ids = workers(&mut p, 2);
        s.process(process);
        for (ix, &(wait, _, work)) in places.iter().enumerate() {
            let word = 0x1000 * (7 + u64::from(process) + ix as u64);
            let wake = places[1 - ix].1;
            let lock = Wait::futex(wait, word).woken_from(process, ids[1 - ix], wake);
            s.waits(ids[ix], lock, ms(1 + ix as u64));
            for _ in 0..100 {
                s.runs(ids[ix], work, ms(1)).waits(ids[ix], lock, ms(1));
            }
        }
    }
    let found = analysis(&model(p, s)).findings;
    assert!(
        found.iter().all(|f| f.id != FindingId::ContendedFutex),
        "{found:#?}"
    );
}

#[test]
fn an_allocator_is_advised_where_only_the_allocators_lock_is_waited_for() {
    let fix = |functions| {
        let found = contended(&[
            ("parse", MALLOC, &[0x7000]),
            ("render", functions, &[0x7000]),
        ]);
        found[0].causes[0].fix.clone()
    };
    let allocator = fix(FREE);
    assert!(
        allocator.contains("jemalloc") && allocator.contains("MALLOC_ARENA_MAX"),
        "{allocator}"
    );
    let other = fix(&["__lll_lock_wait_private", "random"]);
    assert!(
        other.starts_with("call random() and malloc() less often at "),
        "{other}"
    );
}

#[test]
fn functions_of_the_c_library_are_called_as_programs_call_them() {
    for (functions, called) in [
        (FREE, "in free() of the C library, called at "),
        (
            &["__lll_lock_wait_private", "malloc@@GLIBC_2.2.5"],
            "in malloc() of the C library, called at ",
        ),
        (
            &["__GI___lll_lock_wait_private", "__GI___libc_realloc"],
            "in realloc() of the C library, called at ",
        ),
        (
            &["__lll_lock_wait_private", "_IO_puts"],
            "in puts() of the C library, called at ",
        ),
        (
            &["__lll_lock_wait_private", "__tz_convert"],
            "in localtime() of the C library, called at ",
        ),
        (
            &[
                "__lll_lock_wait_private",
                "__vfprintf_internal",
                "__fprintf_chk",
            ],
            "in fprintf() of the C library, called at ",
        ),
        (
            &["__lll_lock_wait_private", "__vfprintf_internal"],
            "in vfprintf() of the C library, called at ",
        ),
        // A lock of the program's own.
        (
            &["__lll_lock_wait", "___pthread_mutex_lock"],
            "wait for one another at ",
        ),
    ] {
        let title = title(&[
            ("parse", functions, &[0x7000]),
            ("render", functions, &[0x7000]),
        ]);
        assert!(title.contains(called), "{title}");
    }
}

#[test]
fn functions_that_are_hardly_waited_in_are_not_named() {
    let one_in_malloc_of = |threads: usize| {
        let mut all = vec![("render", FREE, &[0x7000][..]); threads - 1];
        all.push(("parse", MALLOC, &[0x7000]));
        title(&all)
    };
    let titles = [one_in_malloc_of(9), one_in_malloc_of(11)];
    assert!(
        titles[0].contains(" in free() and malloc() of"),
        "{titles:?}"
    );
    assert!(titles[1].contains(" in free() of"), "{titles:?}");
}

/// Threads of Java that wait for a monitor; of 10 ms that each runs, so many are in functions of the virtual machine. Where the monitor is
/// taken is known or not, and where it is left is.
fn monitor(threads: &str, taker: bool, inside: &str, n: u64) -> Option<Finding> {
    let found = monitors([threads; 4], taker, inside, n, false).into_iter();
    found
        .into_iter()
        .find(|f| f.id == FindingId::ContendedFutex)
}

/// What is said of four threads of these names. What is `inside` may be a loop in which they spin for the monitor.
fn monitors(threads: [&str; 4], taker: bool, inside: &str, n: u64, is_loop: bool) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("java");
    p.cpus(2).raw().without_agent = true;
    let jvm = p.module("libjvm.so");
    let at = |p: &mut ProfileBuilder, inner: &[&str], known: bool| {
        let inner = inner.iter().map(|f| p.frame_in(jvm, f, "", 0));
        let inner: Vec<_> = inner.collect();
        let put = p.frame("Store.put", "Store.java", 7);
        let put = if known { vec![put] } else { Vec::new() };
        p.stack(&[inner, put].concat())
    };
    let enter = [
        "ObjectMonitor::enter_internal(JavaThread*)",
        "ObjectSynchronizer::enter(Handle, BasicLock*, JavaThread*)",
    ];
    let wait = at(&mut p, &enter, taker);
    let wake = at(&mut p, &["ObjectMonitor::exit(JavaThread*, bool)"], true);
    let frame = p.frame_in(jvm, inside, "", 0);
    let (inside, work) = (at(&mut p, &[inside], taker), at(&mut p, &[], true));
    let ids = threads.map(|name| {
        let thread = p.thread(name).start("thread_native_entry", "", 1);
        thread.cpu(1).id()
    });
    let mut s = Schedule::new();
    let spin = s.spin_loop(SpinKind::Pause, Some(frame));
    for (ix, &t) in ids.iter().enumerate() {
        let lock = Wait::futex(wait, 0x7000 + ix as u64).woken_by(ids[(ix + 1) % 4], wake);
        s.waits(t, lock, ms(1 + 5 * ix as u64));
        for _ in 0..100 {
            for at in 0..10 {
                match at < n {
                    true if is_loop => s.spins(t, inside, spin, ms(1)),
                    inner => s.runs(t, if inner { inside } else { work }, ms(1)),
                };
            }
            s.waits(t, lock, ms(10));
        }
    }
    let all = analysis(&model(p, s));
    all.findings.into_iter().chain(all.dismissed).collect()
}

const SPIN: &str = "ObjectMonitor::try_spin(JavaThread*)";

#[test]
fn what_a_monitor_costs_in_the_virtual_machine_goes_with_it() {
    let mid = |inside, n| monitor("worker", true, inside, n).map_or(1.0, |f| f.gain.mid);
    let without = mid(SPIN, 0);
    for inside in [
        SPIN,
        "ObjectSynchronizer::quick_enter(oopDesc*, JavaThread*, BasicLock*)",
        "SharedRuntime::complete_monitor_locking_C(oopDesc*, BasicLock*, JavaThread*)",
    ] {
        let with = mid(inside, 3);
        assert!(with > 1.15 * without, "{inside} {with} {without}");
    }
    // Who waits to be notified has let it go, and the collector is no monitor.
    for other in [
        "ObjectMonitor::wait(long, bool, JavaThread*)",
        "G1RemSet::refine()",
    ] {
        assert!((mid(other, 3) - without).abs() < 0.01, "{other}");
    }
}

#[test]
fn a_monitor_is_where_it_is_left_if_nobody_knows_where_it_is_taken() {
    let title = |taker| monitor("worker", taker, SPIN, 3).expect("said").title;
    assert!(
        title(true).contains("at Store.put() Store.java:7"),
        "{}",
        title(true)
    );
    let left = "at a monitor (synchronized) that Store.put() Store.java:7 leaves";
    assert!(title(false).contains(left), "{}", title(false));
}

/// The thread that starts a parallel stream works in it beside those of the pool.
#[test]
fn who_leaves_a_monitor_had_it_whatever_the_thread_does_besides() {
    let kinds = ["starter", "pool", "starter", "pool"];
    let two = monitors(kinds, true, SPIN, 3, false);
    let lock = two.iter().find(|f| f.id == FindingId::ContendedFutex);
    let lock = lock.expect("one lock");
    assert!(lock.title.starts_with("4 threads of "), "{lock:?}");
    assert!(lock.title.contains("pool and starter") || lock.title.contains("starter and pool"));
}

#[test]
fn spinning_for_a_monitor_is_said_with_it() {
    let found = monitors(["worker"; 4], true, SPIN, 3, true);
    let ids: Vec<_> = found.iter().map(|f| f.id.as_str()).collect();
    assert!(!ids.contains(&"busy-waiting"), "{ids:?}");
    let lock = found.iter().find(|f| f.id == FindingId::ContendedFutex);
    let seen = &lock.expect("said").evidence;
    let spun = seen.iter().find(|e| e.key == "spinning_ns").expect("seen");
    assert!(
        (spun.value / (4.0 * 100.0 * 3e6) - 1.0).abs() < 0.01,
        "{spun:?}"
    );
}

#[test]
fn threads_that_a_virtual_machine_has_for_itself_wait_for_work() {
    let said = |threads| monitor(threads, true, SPIN, 3).is_some();
    assert!(said("worker"));
    assert!(!said("G1 Refine#0"));
}

/// What is said of two processes of a database that wait in turns for a lock of it, in this function.
fn of_a_database(sleeps: &str, wants: &str) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("postgres");
    p.cpus(2);
    let stack = |p: &mut ProfileBuilder, functions: &[&str]| {
        let frames = functions.iter().map(|f| p.frame(f, "", 0));
        let frames: Vec<_> = frames.collect();
        p.stack(&frames)
    };
    let wait = [sleeps, "LockAcquireExtended", wants, "PostgresMain"];
    let wake = ["ProcLockWakeup", "LockReleaseAll", "PostgresMain"];
    let of_process = |p: &mut ProfileBuilder| {
        (
            stack(p, &wait),
            stack(p, &wake),
            stack(p, &["ExecUpdate", "PostgresMain"]),
        )
    };
    let first = of_process(&mut p);
    p.process("postgres");
    let second = of_process(&mut p);
    let mut s = Schedule::new();
    for round in 0..50 {
        for (turn, of) in (0..).zip([first, second]) {
            let other = [second, first][turn as usize];
            let works = round * 2 + turn;
            s.process(turn);
            let woken = Wait::new(OffReason::Poll, of.0).woken_from(1 - turn, 0, other.1);
            if works % 2 == turn {
                s.waits(0, woken, ms(1 + 9 * u64::from(works > 0)));
            }
            s.runs(0, of.2, ms(10));
        }
    }
    let found = analysis(&model(p, s)).findings.into_iter();
    found
        .filter(|f| f.id == FindingId::ContendedFutex)
        .collect()
}

#[test]
fn processes_of_a_database_that_wait_for_a_row_wait_for_one_another() {
    let found = of_a_database("ProcSleep", "XactLockTableWait");
    assert_eq!(found.len(), 1, "{found:#?}");
    let f = &found[0];
    let told = "2 threads of 2 processes of postgres wait for one another to have a row";
    assert!(f.title.starts_with(told), "{}", f.title);
    assert!(f.causes[0].fix.contains("several rows"), "{:?}", f.causes);
    assert!(f.evidence.iter().all(|e| e.key != "futexes"), "{f:#?}");
    let table = of_a_database("ProcSleep", "LockRelationOid");
    assert!(table[0].title.contains("a table"), "{}", table[0].title);
    let clients = of_a_database("secure_read", "ReadCommand");
    assert!(clients.is_empty(), "it waits for its client: {clients:#?}");
}

/// What is said of four threads of MariaDB that wait in turns, each for a condition of its own, on the way to `wants`, and end that on the way of `ends`.
fn of_connections(wants: &str, ends: &str) -> Vec<Finding> {
    of_connections_at("", wants, ends)
}

/// The same, with what the engine waits in.
fn of_connections_at(inner: &str, wants: &str, ends: &str) -> Vec<Finding> {
    let mut p = ProfileBuilder::new("mariadbd");
    p.cpus(2);
    let mut stack = |functions: [&str; 4]| {
        let frames = functions.map(|f| p.frame(f, "", 0));
        let outer = ["dispatch_command(THD*)", "handle_one_connection"].map(|f| p.frame(f, "", 0));
        p.stack(&[&frames[..], &outer].concat())
    };
    let wait = stack(["pthread_cond_timedwait", inner, wants, "mysql_update(THD*)"]);
    let wake = stack([
        "pthread_cond_signal",
        "",
        ends,
        "mysql_execute_command(THD*)",
    ]);
    let works = stack(["my_hash_sort", "", "mysql_parse(THD*)", ""]);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            p.thread("mariadbd")
                .start("pfs_spawn_thread", "", 0)
                .cpu(1)
                .id()
        })
        .collect();
    let mut s = Schedule::new();
    for round in 0..50 {
        for (ix, &t) in threads.iter().enumerate() {
            let before = threads[(ix + 3) % 4];
            let wait = Wait::futex(wait, 0x1000 + 0x100 * ix as u64).woken_by(before, wake);
            let first = if round == 0 { ix as u64 } else { 3 };
            if first > 0 {
                s.waits(t, wait, ms(10 * first));
            }
            s.runs(t, works, ms(10));
        }
    }
    let found = analysis(&model(p, s)).findings.into_iter();
    found
        .filter(|f| f.id == FindingId::ContendedFutex)
        .collect()
}

#[test]
fn connections_that_wait_for_a_row_wait_for_one_another() {
    let row = "handler::ha_index_read_map(unsigned char*, unsigned char const*)";
    let found = of_connections(row, "ha_commit_trans(THD*, bool)");
    assert_eq!(found.len(), 1, "{found:#?}");
    let told = "4 threads of pfs_spawn_thread() wait for one another to have a row";
    assert!(found[0].title.starts_with(told), "{}", found[0].title);
    assert!(found[0].caveats[0].contains("INNODB_LOCK_WAITS"));
    let ends = "MDL_context::release_transactional_locks(THD*)";
    let named = of_connections("MDL_context::acquire_lock(MDL_request*, double)", ends);
    assert!(named[0].title.contains("to have a lock of the database"));
    // A latch of the engine is let go by who has it, in the middle: it is a lock like any other.
    let latch = of_connections_at(
        "rw_lock_x_lock(rw_lock_t*)",
        row,
        "rw_lock_x_unlock(rw_lock_t*)",
    );
    assert!(
        latch.iter().all(|f| !f.title.contains("a row")),
        "{latch:#?}"
    );
    // Nobody lets a row go in the middle; and who waits in its commit has its rows.
    assert!(of_connections(row, "handler::ha_write_row(unsigned char const*)").is_empty());
    let commit = "ha_commit_trans(THD*, bool)";
    assert!(of_connections(commit, commit).is_empty());
}
