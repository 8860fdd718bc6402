//! The profile file as its users meet it: whole, large, cut short, damaged, hostile.

mod draw;
mod hostile;
mod round_trip;
mod size;
