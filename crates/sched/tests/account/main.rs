//! The accounting against arithmetic by hand, against an oracle that scans all intervals, and against
//! nonsense.

mod by_hand;
mod draw;
mod hostile;
mod images;
mod laws;
mod oracle;
mod property;
mod size;
mod tell;
mod timeline;
