//! Names as their programmers wrote them.

use std::cell::RefCell;
use std::collections::HashMap;
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
        .or_else(|| cpp_path(mangled))
        .unwrap_or_else(|| mangled.to_owned());
    if let Some(number) = outlined {
        let _ = write!(full, "._omp_fn.{number}");
    }
    full
}

/// Demangles with a memory: the same functions are inlined everywhere, and a hundred thousand locks may
/// be one array.
#[derive(Default)]
pub(crate) struct Names(RefCell<HashMap<Vec<u8>, String>>);

impl Names {
    pub(crate) fn demangle(&self, name: &[u8]) -> String {
        if let Some(known) = self.0.borrow().get(name) {
            return known.clone();
        }
        let full = demangle(name);
        self.0.borrow_mut().insert(name.to_owned(), full.clone());
        full
    }
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
    // With a number; without one they may be words of a name: `runtime.clone` is a function of Go.
    const NUMBERED: [&str; 6] = [
        ".part.",
        ".isra.",
        ".constprop.",
        ".lto_priv.",
        ".llvm.",
        ".clone.",
    ];
    const PLAIN: [&str; 3] = [".cold", ".localalias", ".uwtable"];
    let cut = |clone: &&str| {
        let at = name.find(*clone).filter(|at| *at > 0)?;
        let rest = &name[at + clone.len()..];
        let ends = match clone.ends_with('.') {
            true => rest.starts_with(|c: char| c.is_ascii_digit()),
            false => rest.is_empty() || rest.starts_with('.'),
        };
        ends.then_some(at)
    };
    match NUMBERED.iter().chain(&PLAIN).filter_map(cut).min() {
        Some(at) => &name[..at],
        None => name,
    }
}

fn rust(name: &str) -> Option<String> {
    // Old Rust names are C++ names that end with a hash. The reader would take C++ variables too.
    let hash = |tail: &str| tail.len() == 20 && tail.starts_with("17h") && tail.ends_with('E');
    let tail = name.len().checked_sub(20).and_then(|at| name.get(at..));
    if !name.starts_with("_R") && !tail.is_some_and(hash) {
        return None;
    }
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

/// The path that a C++ name begins with, where the demangler gives up on what follows it: GCC's names of
/// templates with conditions (`std::swap`) have a form that the grammar does not allow.
fn cpp_path(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("_Z")?;
    let nested = rest.starts_with('N');
    rest = rest
        .strip_prefix('N')
        .unwrap_or(rest)
        .trim_start_matches(['K', 'V', 'r', 'R', 'O', 'L']);
    let mut parts = Vec::new();
    if let Some(after) = rest.strip_prefix("St") {
        parts.push("std");
        rest = after;
    }
    while rest.starts_with(|c: char| c.is_ascii_digit()) && (nested || parts.len() < 2) {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let end = digits.checked_add(rest[..digits].parse().ok()?)?;
        parts.push(rest.get(digits..end)?);
        rest = &rest[end..];
    }
    let complete =
        rest.starts_with('I') && parts.len() > usize::from(parts.first() == Some(&"std"));
    complete.then(|| format!("{}<...>", parts.join("::")))
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

#[cfg(test)]
mod tests {
    use super::{clean, demangle};

    #[test]
    fn names_of_c_cxx_and_rust_are_read() {
        for (raw, full) in [
            ("main", "main"),
            ("main.cold", "main"),
            ("fold.part.0.isra.1", "fold"),
            ("main._omp_fn.0", "main._omp_fn.0"),
            ("lock.0", "lock.0"),
            ("runtime.clone", "runtime.clone"),
            ("main.part.func1", "main.part.func1"),
            (".gomp_critical_user_io", ".gomp_critical_user_io"),
            ("_Z4workib", "work(int, bool)"),
            ("_Z4workib.constprop.0", "work(int, bool)"),
            ("_Z4workv._omp_fn.3", "work()._omp_fn.3"),
            ("_ZZ4workvE4lock", "work()::lock"),
            ("_ZN12_GLOBAL__N_16hiddenE", "(anonymous namespace)::hidden"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            (
                "_ZN3std4sync5mutex4lock17h0123456789abcdefE",
                "std::sync::mutex::lock",
            ),
            (
                "_ZN3std4sync5mutex4lock17h0123456789abcdefE.llvm.12",
                "std::sync::mutex::lock",
            ),
            ("_Zgarbage", "_Zgarbage"),
            ("_R", "_R"),
            ("", ""),
        ] {
            assert_eq!(demangle(raw.as_bytes()), full, "{raw}");
        }
    }

    #[test]
    fn a_template_that_cannot_be_read_keeps_its_path() {
        let swap = "_ZSt4swapIlENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21\
                    is_move_constructibleIS4_ESt18is_move_assignableIS4_EEE5valueEvE4typeERS4_SE_";
        assert_eq!(demangle(swap.as_bytes()), "std::swap<...>");
        assert_eq!(
            super::cpp_path("_ZN2v84base5CheckIXbroken").as_deref(),
            Some("v8::base::Check<...>")
        );
        for broken in [
            "_Z",
            "_ZN",
            "_ZSt",
            "_ZSt4",
            "_Z99aI",
            "_Z4workv",
            "_Z3éI",
            "_Z99999999999999999999aI",
        ] {
            assert_eq!(super::cpp_path(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_name_that_expands_without_end_is_left_alone() {
        // Each pair doubles the one before it.
        let mut bomb = "_Z1fSt4pairIiiE".to_owned();
        let mut last = "S_".to_owned();
        for i in 0..40 {
            bomb.push_str(&format!("St4pairI{last}{last}E"));
            last = format!(
                "S{}_",
                char::from_digit(i % 36, 36)
                    .unwrap_or('0')
                    .to_ascii_uppercase()
            );
        }
        assert!(demangle(bomb.as_bytes()).len() <= super::MAX_CHARS);
    }

    #[test]
    fn nothing_that_moves_a_cursor_gets_through() {
        assert_eq!(clean(b"a\x1b[31mb\nc\xff"), "a?[31mb?c\u{fffd}");
    }
}
