//! What is said of counts: synthetic profiles, and their twins in which nothing is wrong.

#![forbid(unsafe_code)]

mod alike;
mod gain_by_simulation;
mod hot_word;
mod library_locks;
mod not_seen;
mod parked;
mod queues;
mod shared;
mod sim;
mod small_regions;
mod split;
mod stages;
mod tokens;
mod uneven;
mod waste;
