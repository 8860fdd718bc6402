//! `Model::build` on small profiles that can be checked by hand.

use convoy_model::{Model, ObjectId, ThreadId, Use};
use convoy_profile::{FrameIx, ObjectKind, Op, Profile, ThreadIx};
use convoy_testkit::{ms, us, ProfileBuilder};

fn uses_of(model: &Model, name: &str) -> Vec<Use> {
    let id = model
        .objects
        .iter()
        .position(|object| object.name == name)
        .expect(name) as u32;
    model
        .uses
        .iter()
        .filter(|row| row.object == ObjectId(id))
        .cloned()
        .collect()
}

fn shown(model: &Model, row: &Use) -> String {
    let site = &model.sites[row.site.0 as usize];
    site.frames[site.shown].label()
}

/// Calls per (frame, thread, op), in the profile and in the model: spreading must not change them.
fn assert_conserved(profile: &Profile, model: &Model) {
    type Sums = std::collections::BTreeMap<(String, u32, Option<Op>), (u64, u64)>;
    let mut before = Sums::new();
    for process in &profile.processes {
        let mut add = |frame: FrameIx, thread: ThreadIx, op: Op, n: u64, failed: u64| {
            let pc = process.frames[frame as usize].offset;
            let sum = before
                .entry((
                    format!("{pc:x}"),
                    process.threads[thread as usize].tid,
                    Some(op),
                ))
                .or_default();
            sum.0 += n;
            sum.1 += failed;
        };
        for row in &process.counts {
            add(row.frame, row.thread, row.op, row.n, row.failed);
        }
        for row in &process.unattributed {
            add(row.frame, row.thread, row.op, row.n, row.failed);
        }
    }
    let mut after = Sums::new();
    for row in model
        .uses
        .iter()
        .filter(|row| row.calls > 0 || row.failed > 0)
    {
        let leaf = &model.sites[row.site.0 as usize].frames[0];
        let tid = model.threads[row.thread.0 as usize].tid;
        let sum = after
            .entry((format!("{:x}", leaf.offset), tid, row.op))
            .or_default();
        sum.0 += row.calls;
        sum.1 += row.failed;
    }
    before.retain(|_, sum| *sum != (0, 0));
    assert_eq!(before, after);
}

#[test]
fn a_lock_with_one_stack_needs_no_estimate() {
    let mut p = ProfileBuilder::new("server");
    let site = p.site("hot", "a.c", 12);
    let a = p.thread("worker-0").id();
    let lock = p.mutex("cache_lock");
    p.acquires(a, lock, site, 6400).hold(us(2)).cost(25);
    p.contended(a, lock, site, 3, ms(6))
        .hold(us(5))
        .longest(ms(4));
    let profile = p.build();
    let model = Model::build(profile.clone());

    let uses = uses_of(&model, "cache_lock");
    assert_eq!(uses.len(), 1);
    let row = &uses[0];
    assert_eq!((row.calls, row.waits, row.estimated), (6403, 3, false));
    assert_eq!((row.wait_ns, row.wait_max_ns), (ms(6), ms(4)));
    // 6400 / 64 samples of 2 us; the three contended ones are told apart by difference.
    assert_eq!((row.hold_sampled_n, row.hold_sampled_ns), (100, us(200)));
    assert_eq!((row.hold_contended_n, row.hold_contended_ns), (3, us(15)));
    assert_eq!((row.acquire_n, row.acquire_ns), (100, 2500));
    assert_eq!(row.hold_max_ns, us(5));
    assert_eq!(row.hold_total_ns(), 15e3 + 6400.0 * 2e3);
    let thread = &model.threads[row.thread.0 as usize];
    assert_eq!(thread.wait_ns.get(&ObjectKind::Mutex), Some(&ms(6)));
    assert_eq!(thread.compute_ns(), ms(994));
    assert_conserved(&profile, &model);
}

#[test]
fn a_call_site_is_spread_over_its_stacks_by_samples_and_waits() {
    let mut p = ProfileBuilder::new("server");
    let leaf = p.frame("my_lock", "lock.c", 3);
    let (get, put) = (
        p.frame("cache_get", "a.c", 10),
        p.frame("cache_put", "a.c", 20),
    );
    let (at_get, at_put) = (p.stack(&[leaf, get]), p.stack(&[leaf, put]));
    let a = p.thread("worker-0").id();
    let lock = p.mutex("cache_lock");
    // 10,000 calls; the sampler drew 75 at get and 25 at put, and 1,000 at put waited, of which it
    // drew none. Known: put 1,000. The other 9,000 go 75 * 64 : 25 * 64 - 1,000 = 4,800 : 600.
    p.op(a, lock, at_get, Op::MutexLock, 9000).samples(75);
    p.op(a, lock, at_put, Op::MutexLock, 1000)
        .samples(25)
        .waits(1000, ms(100));
    let profile = p.build();
    let model = Model::build(profile.clone());

    let mut got: Vec<_> = uses_of(&model, "cache_lock")
        .iter()
        .map(|row| (shown(&model, row), row.calls, row.waits, row.estimated))
        .collect();
    got.sort();
    assert_eq!(
        got,
        [
            ("cache_get() a.c:10".to_owned(), 8000, 0, true),
            ("cache_put() a.c:20".to_owned(), 2000, 1000, true),
        ]
    );
    assert_conserved(&profile, &model);
}

#[test]
fn timeouts_and_unfinished_waits_are_no_acquisitions() {
    let mut p = ProfileBuilder::new("server");
    let leaf = p.frame("timed_lock", "lock.c", 3);
    let (x, y) = (p.frame("x", "a.c", 10), p.frame("y", "a.c", 20));
    let (at_x, at_y) = (p.stack(&[leaf, x]), p.stack(&[leaf, y]));
    let a = p.thread("worker-0").id();
    let lock = p.mutex("m");
    p.op(a, lock, at_x, Op::MutexTimedlock, 0)
        .samples(0)
        .waits(10, ms(10))
        .timeouts(10, ms(10));
    p.op(a, lock, at_y, Op::MutexTimedlock, 5)
        .samples(0)
        .waits(6, ms(10))
        .unfinished(ms(5));
    let profile = p.build();
    let model = Model::build(profile.clone());
    let uses = uses_of(&model, "m");
    let calls: Vec<_> = uses
        .iter()
        .map(|u| (shown(&model, u), u.calls, u.failed, u.timeouts))
        .collect();
    assert!(
        calls.contains(&("x() a.c:10".into(), 0, 10, 10)),
        "{calls:?}"
    );
    assert!(calls.contains(&("y() a.c:20".into(), 5, 0, 0)), "{calls:?}");
    assert_conserved(&profile, &model);
}

#[test]
fn calls_of_unknown_objects_follow_the_draws() {
    let mut p = ProfileBuilder::new("server");
    let leaf = p.frame("shard_lock", "a.c", 3);
    let site = p.stack(&[leaf]);
    let a = p.thread("worker-0").id();
    let b = p.thread("worker-1").id();
    let (one, two) = (p.mutex("shard1"), p.mutex("shard2"));
    p.acquires(a, one, site, 640);
    p.acquires(a, two, site, 640);
    p.raw().counts[0].sampled = 30;
    p.raw().counts[1].sampled = 10;
    p.unattributed(a, leaf, Op::MutexLock, 2560);
    // Thread b has no draws of its own: it follows a's. Nobody knows a trylock here.
    p.unattributed(b, leaf, Op::MutexLock, 4);
    p.unattributed(b, leaf, Op::SpinTrylock, 7);
    let profile = p.build();
    let model = Model::build(profile.clone());

    let calls = |name: &str| -> Vec<_> {
        uses_of(&model, name)
            .iter()
            .map(|u| (u.thread, u.calls, u.estimated))
            .collect()
    };
    let (a, b) = (ThreadId(a), ThreadId(b));
    assert_eq!(calls("shard1"), [(a, 640 + 1920, true), (b, 3, true)]);
    assert_eq!(calls("shard2"), [(a, 640 + 640, true), (b, 1, true)]);
    assert_eq!(calls("spin lock not told apart"), [(b, 7, true)]);
    assert_conserved(&profile, &model);
}

#[test]
fn an_unknown_object_has_no_fewer_calls_than_it_waited() {
    let mut p = ProfileBuilder::new("server");
    let leaf = p.frame("lock_contended", "a.c", 3);
    let site = p.stack(&[leaf]);
    let a = p.thread("main").id();
    let (busy, rare, counted) = (p.mutex("busy"), p.mutex("rare"), p.mutex("counted"));
    p.acquires(a, busy, site, 100);
    p.raw().counts[0].sampled = 10;
    // No draw fell on it, nor is any of its waits counted.
    p.op(a, rare, site, Op::MutexLock, 0).waits(5, ms(1));
    // Four of its six waits are counted on it.
    p.op(a, counted, site, Op::MutexLock, 4).waits(6, ms(1));
    p.unattributed(a, leaf, Op::MutexLock, 20);
    let profile = p.build();
    let model = Model::build(profile.clone());

    let calls = |name: &str| -> u64 { uses_of(&model, name).iter().map(|u| u.calls).sum() };
    assert_eq!(calls("rare"), 5);
    assert_eq!(calls("counted"), 6);
    assert_eq!(calls("busy"), 100 + 13);
    assert_conserved(&profile, &model);
}

#[test]
fn unsampled_call_sites_borrow_stacks_in_proportion() {
    let mut p = ProfileBuilder::new("server");
    let leaf = p.frame("my_lock", "lock.c", 3);
    let (x, y) = (p.frame("x", "a.c", 10), p.frame("y", "a.c", 20));
    let (at_x, at_y, alone) = (p.stack(&[leaf, x]), p.stack(&[leaf, y]), p.stack(&[leaf]));
    let a = p.thread("worker-0").id();
    let known = p.mutex("known");
    p.op(a, known, at_x, Op::MutexLock, 3 * 640);
    p.op(a, known, at_y, Op::MutexLock, 640);
    for n in 0..100 {
        let lock = p.mutex(&format!("lock{n}"));
        p.op(a, lock, alone, Op::MutexLock, 8).samples(0);
    }
    let elsewhere = p.site("elsewhere", "b.c", 1);
    let lonely = p.mutex("lonely");
    p.op(a, lonely, elsewhere, Op::MutexLock, 5).samples(0);
    let profile = p.build();
    let model = Model::build(profile.clone());

    let at = |label: &str| -> u64 {
        let rows = model.uses.iter().filter(|row| shown(&model, row) == label);
        rows.map(|row| row.calls).sum()
    };
    assert_eq!(at("x() a.c:10"), 3 * 640 + 75 * 8);
    assert_eq!(at("y() a.c:20"), 640 + 25 * 8);
    assert_eq!(at("elsewhere() b.c:1"), 5);
    assert_conserved(&profile, &model);
}

#[test]
fn records_of_one_address_are_one_object() {
    let mut p = ProfileBuilder::new("server");
    let (few, many) = (
        p.site("conn_new", "a.c", 1),
        p.site("cache_new", "items.c", 41),
    );
    let site = p.site("f", "a.c", 9);
    let a = p.thread("worker-0").id();
    let one = p
        .object(ObjectKind::Cond)
        .addr(0x1000)
        .init(few)
        .lives(2)
        .id();
    let two = p
        .object(ObjectKind::Mutex)
        .addr(0x1000)
        .init(many)
        .lives(7)
        .id();
    p.acquires(a, one, site, 64);
    p.acquires(a, two, site, 64);
    let model = Model::build(p.build());
    assert_eq!(model.objects.len(), 1);
    let object = &model.objects[0];
    assert_eq!((object.kind, object.lives), (ObjectKind::Mutex, 9));
    assert_eq!(object.name, "mutex initialised in cache_new() items.c:41");
    assert_eq!(model.uses.iter().map(|u| u.calls).sum::<u64>(), 128);
}

#[test]
fn pairs_speak_of_threads_and_places() {
    let mut p = ProfileBuilder::new("server");
    let hot = p.frame("hot", "a.c", 12);
    let site = p.stack(&[hot]);
    let out = p.site("leave_hot", "a.c", 30);
    p.thread("unborn").never_ran().id();
    let a = p.thread("worker-0").id();
    let b = p.thread("worker-1").id();
    let lock = p.mutex("m");
    p.contended(a, lock, site, 4, ms(8)).held_by(b, hot, out);
    let model = Model::build(p.build());
    assert_eq!(
        model.threads.len(),
        3,
        "the thread that never ran is left out"
    );
    let pair = &model.pairs[0];
    let name = |id: ThreadId| model.threads[id.0 as usize].name.as_str();
    assert_eq!(name(pair.thread), "worker-0");
    assert_eq!(pair.peer.map(name), Some("worker-1"));
    assert_eq!(pair.peer_acquired_at[0].label(), "hot() a.c:12");
    let released = &model.sites[pair.peer_site.expect("known").0 as usize];
    assert_eq!(
        released.frames[released.shown].label(),
        "leave_hot() a.c:30"
    );
    assert_eq!((pair.waits, pair.wait_ns), (4, ms(8)));
}

#[test]
fn processes_do_not_mix() {
    let mut p = ProfileBuilder::new("parent");
    let site = p.site("f", "a.c", 1);
    let lock = p.mutex("m");
    p.acquires(0, lock, site, 10);
    p.process("child");
    let site = p.site("g", "b.c", 2);
    let lock = p.mutex("m");
    p.acquires(0, lock, site, 20);
    let model = Model::build(p.build());
    let names: Vec<_> = model
        .objects
        .iter()
        .map(|o| (o.process.0, o.name.as_str()))
        .collect();
    assert_eq!(
        names,
        [(0, "m"), (1, "m")],
        "a name is unique in its process"
    );
    let uses: Vec<_> = model
        .uses
        .iter()
        .map(|u| (shown(&model, u), u.calls))
        .collect();
    assert_eq!(
        uses,
        [("f() a.c:1".to_owned(), 10), ("g() b.c:2".to_owned(), 20)]
    );
    assert_eq!(model.processes[1].name, "child");
    assert_eq!(model.processes[1].threads, [ThreadId(1)]);
}

#[test]
fn indices_that_lead_nowhere_are_ignored() {
    let mut p = ProfileBuilder::new("server");
    let site = p.site("f", "a.c", 1);
    let lock = p.mutex("m");
    p.contended(0, lock, site, 10, ms(1)).held_by(77, 77, 77);
    let mut profile = p.build();
    let process = &mut profile.processes[0];
    let mut wild = process.clone();
    for row in &mut wild.counts {
        (row.object, row.frame, row.thread) = (9, 9, 9);
    }
    process.counts.extend(wild.counts);
    process.counts[0].frame = 9;
    process
        .details
        .extend(wild.details.into_iter().map(|mut row| {
            (row.object, row.stack, row.thread) = (0, 9, 9);
            row
        }));
    process.stacks[1].push(9);
    process.threads[0].create_stack = 9;
    process.threads[0].start = Some(9);
    process.objects[0].init_stack = 9;
    process.frames[0].module = Some(9);
    let model = Model::build(profile);
    assert_eq!(model.objects.len(), 1);
    assert_eq!(model.uses.iter().map(|u| u.calls).sum::<u64>(), 10);
}
