//! The profile file as its users meet it: whole, large, cut short, damaged, hostile.

mod draw;
mod draw_live;
mod draw_sched;
mod draw_sections;
mod draw_trace;
mod experiments;
mod hostile;
mod round_trip;
mod sched;
mod sections;
mod size;
mod trace;
