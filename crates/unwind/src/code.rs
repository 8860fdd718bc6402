//! The bytes and the name of code.

/// Code around an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code<'a> {
    /// Address of the first byte in the process.
    pub lo: u64,
    /// The code.
    pub bytes: &'a [u8],
}

/// A function of a mapped file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function<'a> {
    /// As the linker has it: C++ and Rust names are mangled.
    pub name: &'a str,
    /// Address of its first byte in the process.
    pub lo: u64,
    /// One past its last byte.
    pub hi: u64,
}
