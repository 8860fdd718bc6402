//! What is said of synthetic recordings, and of their twins in which nothing is wrong.

mod balance;
mod beside;
mod blocking;
mod blocking_calls;
mod both;
mod bounds;
mod collector;
mod frequent;
mod goroutines;
mod hand_overs;
mod idle_go;
mod kept_off;
mod kit;
mod library_locks;
mod lines;
mod locks_of_go;
mod loops;
mod passing_on;
mod pools;
mod runtimes;
mod serial;
mod spinning;
mod stages_of_go;
mod steps;
mod turns;
mod writes;
