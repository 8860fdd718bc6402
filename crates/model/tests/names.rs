//! What objects are called.

use convoy_model::{FutexOf, Model};
use convoy_profile::{Memory, ObjectKind, Op};
use convoy_testkit::{ms, ProfileBuilder};

fn names(p: ProfileBuilder) -> Vec<String> {
    Model::build(p.build())
        .objects
        .into_iter()
        .map(|object| object.name)
        .collect()
}

#[test]
fn a_variable_is_the_best_name() {
    let mut p = ProfileBuilder::new("prog");
    let init = p.site("setup", "a.c", 3);
    p.object(ObjectKind::Mutex)
        .symbol("mem0+0x10")
        .init(init)
        .id();
    p.object(ObjectKind::Mutex).symbol("cache_lock+0x0").id();
    p.object(ObjectKind::OmpCritical)
        .symbol(".gomp_critical_user_io")
        .id();
    assert_eq!(names(p), ["mem0+0x10", "cache_lock", "critical section io"]);
}

#[test]
fn a_place_is_the_next_best() {
    let mut p = ProfileBuilder::new("prog");
    let create = p.frame("my_mutex_init", "lock.c", 3);
    let cache_new = p.frame("cache_new", "src/items.c", 41);
    let init = p.stack(&[create, cache_new]);
    let used = p.site("Queue<int>::push(int const&)", "queue.h", 33);
    let less = p.site("Queue<int>::size() const", "queue.h", 80);
    let library = p.module("/usr/lib/libfoo.so.1");
    let t = p.thread("worker-0").id();

    p.object(ObjectKind::Mutex).init(init).id();
    p.object(ObjectKind::RwLock).init(init).id();
    p.object(ObjectKind::Mutex).init(init).id();
    p.object(ObjectKind::Cond).on_stack_of(t).id();
    p.object(ObjectKind::Cond).on_stack_of(0).id();
    let heap = p.object(ObjectKind::Mutex).id();
    p.acquires(t, heap, less, 10_000);
    p.contended(t, heap, used, 1, ms(1));
    p.object(ObjectKind::Sem).addr(0x7f77_0000_0040).id();
    let ix = p.object(ObjectKind::Mutex).addr(0x7f77_0000_0080).id();
    p.raw().objects[ix as usize].module = Some(library);
    p.raw().objects[ix as usize].memory = Memory::Static;
    p.raw().modules[library as usize].bias = 0x7f77_0000_0000;
    assert_eq!(
        names(p),
        [
            "mutex initialised in cache_new() items.c:41",
            "rwlock initialised in cache_new() items.c:41",
            "mutex initialised in cache_new() items.c:41 #2",
            "condition variable on the stack of thread worker-0",
            "condition variable on the stack of the main thread",
            "mutex used in Queue::push() queue.h:33",
            "semaphore 0x7f7700000040 (heap)",
            "mutex at libfoo.so.1+0x80",
        ]
    );
}

#[test]
fn joined_threads_are_called_by_name() {
    let mut p = ProfileBuilder::new("prog");
    let at = p.site("main", "main.c", 9);
    let named = p.thread("worker-0").start("work", "a.c", 1).id();
    let unnamed = p.thread("prog").start("work", "a.c", 1).id();
    p.join(0, named, at, ms(5));
    p.join(0, unnamed, at, ms(5));
    // Two threads had the same stack in turn.
    let (a, b) = (p.thread("io-1").id(), p.thread("io-2").id());
    let (lo, hi) = (
        p.raw().threads[a as usize].stack_lo,
        p.raw().threads[a as usize].stack_hi,
    );
    (
        p.raw().threads[b as usize].stack_lo,
        p.raw().threads[b as usize].stack_hi,
    ) = (lo, hi);
    p.join(0, a, at, ms(5));
    p.object(ObjectKind::Thread).addr(0x40).id();
    assert_eq!(
        names(p),
        [
            "thread 0x40",
            "thread worker-0",
            "a thread of work()",
            "thread io-1 or thread io-2"
        ]
    );
}

#[test]
fn futexes_are_called_after_what_waits_on_them() {
    use FutexOf::*;
    let cases: [(&[&str], Option<FutexOf>, &str); 15] = [
        (
            &["std::sys::sync::mutex::futex::Mutex::lock_contended", "std::sync::poison::mutex::Mutex<T>::lock"],
            Some(RustMutex),
            "Rust Mutex",
        ),
        (&["std::sys_common::mutex::MovableMutex::lock", "std::sync::mutex::Mutex<T>::lock"], Some(RustMutex), "Rust Mutex"),
        (&["std::sys::sync::rwlock::futex::RwLock::read_contended"], Some(RustRwLock), "Rust RwLock"),
        (&["std::sys::sync::condvar::futex::Condvar::wait_optional_timeout", "std::sync::poison::condvar::Condvar::wait"], Some(RustCondvar), "Rust Condvar"),
        (&["std::sys::sync::once::futex::Once::wait"], Some(RustOnce), "Rust Once"),
        (&["std::sys::sync::thread_parking::futex::Parker::park", "std::thread::park"], Some(RustPark), "Rust thread parking"),
        (&["parking_lot_core::parking_lot::park", "parking_lot::raw_mutex::RawMutex::lock_slow"], Some(ParkingLotMutex), "parking_lot Mutex"),
        (&["parking_lot::raw_rwlock::RawRwLock::lock_shared_slow"], Some(ParkingLotRwLock), "parking_lot RwLock"),
        (&["parking_lot::condvar::Condvar::wait_until_internal"], Some(ParkingLotCondvar), "parking_lot Condvar"),
        (
            &["bool std::__detail::__platform_wait<int>(int const*, int)", "std::__atomic_semaphore::_M_acquire()", "std::counting_semaphore<1l>::acquire()"],
            Some(CxxSemaphore),
            "C++ semaphore",
        ),
        (&["std::__atomic_base<long>::wait(long, std::memory_order) const", "std::latch::wait() const"], Some(CxxLatch), "C++ latch"),
        (&["std::__tree_barrier<std::__empty_completion>::wait(unsigned char&&) const"], Some(CxxBarrier), "C++ barrier"),
        (&["std::__atomic_base<int>::wait(int, std::memory_order) const"], Some(CxxAtomicWait), "C++ atomic wait"),
        (&["std::__atomic_futex_unsigned_base::_M_futex_wait_until(unsigned int*, unsigned int, bool)"], Some(CxxFuture), "C++ future"),
        (&["my_futex_wait"], None, "futex"),
    ];
    for (runtime, owner, noun) in cases {
        let mut p = ProfileBuilder::new("prog");
        let mut frames: Vec<_> = runtime.iter().map(|name| p.frame(name, "", 0)).collect();
        frames.push(p.frame("prog::worker", "src/main.rs", 12));
        let at = p.stack(&frames);
        let word = p.object(ObjectKind::Futex).id();
        p.op(0, word, at, Op::FutexWait, 4).waits(4, ms(4));
        let model = Model::build(p.build());
        assert_eq!(model.objects[0].futex_of, owner, "{runtime:?}");
        assert_eq!(
            model.objects[0].name,
            format!("{noun} used in prog::worker() main.rs:12")
        );
    }
}
