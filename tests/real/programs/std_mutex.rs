//! Threads of Rust behind one `std::sync::Mutex`, which is a futex and no pthread mutex: a profiler sees
//! only its system calls. An argument: how many times the work.

use std::env;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::thread;

const THREADS: u64 = 4;

#[inline(never)]
fn post_to_ledger(ledger: &Mutex<Vec<u64>>, turn: u64) {
    let mut ledger = ledger.lock().unwrap();
    for (i, entry) in ledger.iter_mut().enumerate() {
        *entry = entry.wrapping_mul(31).wrapping_add(turn ^ i as u64);
    }
}

fn compute(turn: u64) -> u64 {
    (0..200).fold(turn, |sum, i| black_box(sum.rotate_left(5) ^ i))
}

fn main() {
    let times: u64 = env::args().nth(1).map_or(1, |n| n.parse().unwrap());
    let turns = 60_013 * times;
    let ledger = Arc::new(Mutex::new(vec![0; 512]));
    let spawn = |_| {
        let ledger = Arc::clone(&ledger);
        thread::spawn(move || {
            (0..turns)
                .map(|turn| {
                    post_to_ledger(&ledger, turn);
                    compute(turn) % 7
                })
                .sum::<u64>()
        })
    };
    let threads: Vec<_> = (0..THREADS).map(spawn).collect();
    let rest: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    println!(
        "{} turns, rest {rest}, {} entries",
        THREADS * turns,
        ledger.lock().unwrap().len()
    );
}
