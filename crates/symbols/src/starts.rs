//! Start routines that say nothing about what a thread is for.
/// x
pub fn is_generic_start(_function: &str, _module: &str) -> bool {
    false
}
