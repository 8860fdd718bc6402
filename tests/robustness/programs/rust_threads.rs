// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rust's own ways: scoped threads, a poisoned mutex, park, a channel, a panic that unwinds a thread.

use std::sync::{mpsc, Arc, Mutex};
use std::thread;

fn main() {
    let shared = Arc::new(Mutex::new(0u64));
    let poisoner = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let _guard = shared.lock().unwrap();
            std::panic::resume_unwind(Box::new("unwinds with the lock held"));
        })
    };
    println!("joined: {}", poisoner.join().is_err());
    println!("poisoned: {}", shared.is_poisoned());
    shared.clear_poison();

    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_007 {
                    *shared.lock().unwrap() += 1;
                }
            });
        }
    });
    println!("total: {}", shared.lock().unwrap());

    let (sender, receiver) = mpsc::sync_channel(3);
    let producer = thread::spawn(move || (0..1009u64).for_each(|i| sender.send(i).unwrap()));
    println!("received: {}", receiver.iter().sum::<u64>());
    producer.join().unwrap();

    let parked = thread::spawn(|| {
        thread::park();
        7
    });
    parked.thread().unpark();
    std::process::exit(parked.join().unwrap());
}
