//! Function probes in real processes: values are right, and the programs notice nothing.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod probes {
    pub mod target;

    pub mod all_functions;
    mod everything;
    mod gates;
    mod insertion;
    mod leftovers;
    mod limits;
    mod stacks;
    mod values;
}
