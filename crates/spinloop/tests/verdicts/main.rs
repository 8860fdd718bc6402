//! Verdicts on code that compilers made, on libraries, and on what is no code.

mod compiled;
mod hostile;
mod known;
mod libraries;
mod tells;
