//! What is said of synthetic recordings, and of their twins in which nothing is wrong.

mod balance;
mod blocking;
mod both;
mod bounds;
mod frequent;
mod hand_overs;
mod kit;
mod library_locks;
mod runtimes;
mod serial;
mod spinning;
mod steps;
