//! The page of `convoy report --html`: what is in the file, and what a browser makes of it.

mod browser;
mod file;
mod pages;
