//! Names as their programmers wrote them.

use std::fmt::Write as _;

use cpp_demangle::DemangleOptions;

/// Longest name that is built: the mangling of nested templates can expand to gigabytes.
const MAX_CHARS: usize = 1 << 16;

/// The name behind a linker's name, C++ (Itanium) or Rust (both schemes), in full: parameters
/// and template arguments included, the hash of old Rust names and the suffixes that
/// optimisers add to clones left out. Any other name stays as it is. Unprintable characters become `?`.
pub fn demangle(name: &[u8]) -> String {
    let plain = clean(name);
    let base = without_clone(&plain);
    if !is_mangled(base.as_bytes()) {
        return base.to_owned();
    }
    let (mangled, outlined) = match base.split_once("._omp_fn.") {
        Some((mangled, number)) => (mangled, Some(number)),
        None => (base, None),
    };
    let mut full = rust(mangled)
        .or_else(|| cpp(mangled))
        .unwrap_or_else(|| mangled.to_owned());
    if let Some(number) = outlined {
        let _ = write!(full, "._omp_fn.{number}");
    }
    full
}

/// Whether the name is one of a mangling scheme.
pub(crate) fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}

/// Text from a file that may hold anything, fit for a terminal.
pub(crate) fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.chars().any(char::is_control) {
        return text
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect();
    }
    text.into_owned()
}

/// Cuts what compilers append to copies of a function (`.part.0`, `.cold`, `.constprop.1`, ...), so
/// that a function has one name with and without debug information.
fn without_clone(name: &str) -> &str {
    const CLONES: [&str; 9] = [
        ".part",
        ".cold",
        ".isra",
        ".constprop",
        ".lto_priv",
        ".localalias",
        ".llvm",
        ".clone",
        ".uwtable",
    ];
    let cut = |clone: &&str| {
        let at = name.find(*clone)?;
        let rest = &name[at + clone.len()..];
        (at > 0 && (rest.is_empty() || rest.starts_with('.'))).then_some(at)
    };
    match CLONES.iter().filter_map(cut).min() {
        Some(at) => &name[..at],
        None => name,
    }
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut out = Bounded::default();
    write!(out, "{demangled:#}").ok()?;
    out.finish()
}

fn cpp(name: &str) -> Option<String> {
    let symbol = cpp_demangle::BorrowedSymbol::new(name.as_bytes()).ok()?;
    let mut out = Bounded::default();
    symbol
        .structured_demangle(&mut out, &DemangleOptions::default())
        .ok()?;
    out.finish()
}

/// Text that refuses to grow beyond [`MAX_CHARS`].
#[derive(Default)]
struct Bounded(String);

impl Bounded {
    fn finish(self) -> Option<String> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > MAX_CHARS {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
