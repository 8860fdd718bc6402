//! rust_cache: threads count words in a `HashMap` under a `Mutex` of the standard library, which
//! calls no function of pthread.
//!
//! threads=4 turns=300000 shards=1 gap=200: one lock and one map for each shard, by the key

use std::collections::HashMap;
use std::hint::black_box;
use std::process::exit;
use std::sync::Mutex;

const KEYS: u64 = 4096;

#[repr(align(128))]
struct Shard(Mutex<Option<HashMap<u64, u64>>>);

static CACHE: [Shard; 64] = [const { Shard(Mutex::new(None)) }; 64];

fn number(name: &str, otherwise: u64) -> u64 {
    let prefix = format!("{name}=");
    let Some(value) = std::env::args().find_map(|a| a.strip_prefix(&prefix).map(str::to_owned))
    else {
        return otherwise;
    };
    value.parse().unwrap_or_else(|e| {
        eprintln!("{name}={value}: {e}");
        exit(2)
    })
}

#[inline(never)]
fn work(mut x: u64, links: u64) -> u64 {
    for _ in 0..links {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
    }
    x
}

#[inline(never)]
fn count_word(key: u64, shards: u64) {
    let mut map = CACHE[(key % shards) as usize].0.lock().unwrap();
    *map.get_or_insert_default().entry(key).or_insert(0) += 1;
}

fn main() {
    let (threads, turns) = (number("threads", 4), number("turns", 300_000));
    let (shards, gap) = (number("shards", 1).clamp(1, 64), number("gap", 200));
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let name = std::thread::Builder::new().name(format!("counter-{worker}"));
            let body = move || {
                let mut x = worker;
                for i in 0..turns {
                    count_word(i.wrapping_mul(7919).wrapping_add(worker) % KEYS, shards);
                    x = work(x, gap);
                }
                black_box(x);
            };
            name.spawn_scoped(scope, body).unwrap();
        }
    });
    let maps = CACHE.iter().filter_map(|s| s.0.lock().unwrap().take());
    let counted: u64 = maps.map(|map| map.values().sum::<u64>()).sum();
    assert_eq!(counted, threads * turns);
}
