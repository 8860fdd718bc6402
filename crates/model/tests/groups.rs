//! Which threads do the same job, and what the job is called.

use convoy_model::Model;
use convoy_testkit::ProfileBuilder;

/// Names and sizes of the groups, in order.
fn groups(p: ProfileBuilder) -> Vec<(String, usize)> {
    let model = Model::build(p.build());
    for (at, group) in model.groups.iter().enumerate() {
        for thread in &group.threads {
            assert_eq!(model.threads[thread.0 as usize].group.0 as usize, at);
        }
    }
    model
        .groups
        .into_iter()
        .map(|group| (group.name, group.threads.len()))
        .collect()
}

fn expect(p: ProfileBuilder, want: &[(&str, usize)]) {
    let got = groups(p);
    let got: Vec<_> = got.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(got, want);
}

#[test]
fn start_routines_name_unnamed_threads() {
    let mut p = ProfileBuilder::new("server");
    let at = p.site("main", "main.c", 10);
    for _ in 0..3 {
        p.thread("server")
            .start("producer", "a.c", 1)
            .created_at(at)
            .id();
        p.thread("server")
            .start("consumer", "a.c", 9)
            .created_at(at)
            .id();
    }
    expect(p, &[("main", 1), ("producer()", 3), ("consumer()", 3)]);
}

#[test]
fn given_names_come_first() {
    let mut p = ProfileBuilder::new("a-very-long-program-name");
    let at = p.site("main", "main.c", 10);
    for n in 8..12 {
        p.thread(&format!("io-{n}-x"))
            .start("worker", "a.c", 1)
            .created_at(at)
            .id();
    }
    // The kernel cuts the name that a thread inherits.
    p.thread("a-very-long-pro")
        .start("worker", "a.c", 1)
        .created_at(at)
        .id();
    expect(p, &[("main", 1), ("io-#-x", 4), ("worker()", 1)]);
}

#[test]
fn trampolines_are_told_apart_by_the_line_that_creates() {
    for (trampoline, module) in [
        ("execute_native_thread_routine", "/usr/lib/libstdc++.so.6"),
        (
            "std::sys::pal::unix::thread::Thread::new::thread_start",
            "/usr/bin/prog",
        ),
        (
            "std::sys::thread::unix::Thread::new::thread_start",
            "/usr/bin/prog",
        ),
        ("g_thread_proxy", "/usr/lib/libglib-2.0.so.0"),
        ("gomp_thread_start", "/usr/lib/libgomp.so.1"),
    ] {
        let mut p = ProfileBuilder::new("prog");
        let library = p.module(module);
        let start = p.frame_in(library, trampoline, "", 0);
        let create = p.frame_in(library, "std::thread::_M_start_thread", "", 0);
        let readers = p.inlined_frame(&[
            (
                "std::thread::thread<void (&)(), , void>(void (&)())",
                "std_thread.h",
                143,
            ),
            ("run()", "main.cc", 20),
        ]);
        let writers = p.inlined_frame(&[
            (
                "std::thread::thread<void (&)(), , void>(void (&)())",
                "std_thread.h",
                143,
            ),
            ("run()", "main.cc", 22),
        ]);
        let main = p.frame("main", "main.cc", 50);
        for caller in [readers, writers, readers] {
            let at = p.stack(&[create, caller, main]);
            let ix = p.thread("prog").created_at(at).id();
            p.raw().threads[ix as usize].start = Some(start);
        }
        expect(
            p,
            &[
                ("main", 1),
                ("threads created at run() main.cc:20", 2),
                ("threads created at run() main.cc:22", 1),
            ],
        );
    }
}

#[test]
fn a_helper_that_spawns_has_one_group_per_caller() {
    let mut p = ProfileBuilder::new("prog");
    let helper = p.frame("start_job", "pool.c", 5);
    let (one, two) = (p.frame("main", "main.c", 10), p.frame("main", "main.c", 11));
    for caller in [one, two, one] {
        let at = p.stack(&[helper, caller]);
        p.thread("prog")
            .start("job_main", "pool.c", 1)
            .created_at(at)
            .id();
    }
    expect(
        p,
        &[
            ("main", 1),
            ("job_main() (created from main() main.c:10)", 2),
            ("job_main() (created from main() main.c:11)", 1),
        ],
    );
}

#[test]
fn recursion_and_repetition_make_no_groups() {
    let mut p = ProfileBuilder::new("prog");
    let main = p.frame("main", "main.c", 10);
    let tree = p.frame("spawn_tree", "tree.c", 5);
    for depth in 1..4 {
        let at = p.stack(&[vec![tree; depth], vec![main]].concat());
        p.thread("prog")
            .start("node", "tree.c", 1)
            .created_at(at)
            .id();
    }
    // Two calls in a row of one function, as in pthread_create(&a, ...); pthread_create(&b, ...).
    for line in [30, 31] {
        let at = p.site("main", "main.c", line);
        p.thread("prog")
            .start("helper", "main.c", 1)
            .created_at(at)
            .id();
    }
    expect(p, &[("main", 1), ("node()", 3), ("helper()", 2)]);
}

#[test]
fn nothing_known_is_a_group_too() {
    let mut p = ProfileBuilder::new("prog");
    p.thread("prog").id();
    p.thread("prog").id();
    p.thread("prog").never_ran().id();
    expect(p, &[("main", 1), ("other threads", 2)]);
}
