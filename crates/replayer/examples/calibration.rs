//! Prints what synchronization costs on this machine, how long that took to measure, and how far a
//! second measurement differs.

use std::time::Instant;

use convoy_replayer::calibrate::{calibrate, drift, remeasure, to_text};

fn main() {
    let start = Instant::now();
    let full = calibrate();
    let took = start.elapsed();
    print!("{}", to_text(&full.machine));
    println!("measured in {:.2} s", took.as_secs_f64());
    println!("spread {:.1} %", 100.0 * full.spread);
    println!("disturbed {}", full.disturbed);
    let start = Instant::now();
    let quick = remeasure();
    let took = start.elapsed();
    println!("measured again in {:.2} s", took.as_secs_f64());
    let changed = drift(&full.machine, &quick.machine);
    println!("speed changed by {:.0} %", 100.0 * (changed - 1.0));
}
