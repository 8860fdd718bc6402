//! The code that probes call in the probed process: position-independent, without data.

include!(concat!(env!("OUT_DIR"), "/runtime.rs"));

/// Its bytes; empty on processors other than x86-64.
pub fn code() -> &'static [u8] {
    CODE
}

/// Offset of `probe_enter(table, function, rsp)`.
pub const fn enter() -> u64 {
    ENTER
}

/// Offset of `probe_exit(table, function, rsp)`.
pub const fn exit() -> u64 {
    EXIT
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn both_functions_are_in_the_code() {
        let bytes = super::code().len() as u64;
        assert!(super::enter() < bytes && super::exit() < bytes);
        assert_ne!(super::enter(), super::exit());
    }
}
