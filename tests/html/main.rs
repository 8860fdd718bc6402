//! The pages of `convoy report --html` and `convoy replay --html`: what is in the files, and what a browser makes of them.

mod browser;
mod file;
mod pages;
mod replay;
