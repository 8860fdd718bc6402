//! Reads a demangled function name: `void std::f<int>(int)` is the path `std::f`.
//!
//! C++ and Rust names carry template arguments, parameter lists, return types and clone suffixes;
//! for telling what a function is, and for naming it in a line, only the path counts.

/// The components of a function's path, outermost first. Closures and lambdas are `{closure}`.
pub(crate) fn components(function: &str) -> Vec<String> {
    // Go: `main.(*Pool).run` is a name as it is.
    if function.contains(".(*") {
        return vec![function.to_owned()];
    }
    let mut out = Vec::new();
    Reader {
        rest: function.trim(),
        out: &mut out,
        word: String::new(),
    }
    .read();
    if out.len() > 1 && out.last().is_some_and(|last| is_rust_hash(last)) {
        out.pop();
    }
    out
}

/// The path in one string, `Queue::push`; the name itself where nothing could be read.
pub(crate) fn short(function: &str) -> String {
    let path = components(function);
    if path.is_empty() {
        function.to_owned()
    } else {
        path.join("::")
    }
}

fn is_rust_hash(word: &str) -> bool {
    word.len() == 17 && word.starts_with('h') && word[1..].bytes().all(|b| b.is_ascii_hexdigit())
}

struct Reader<'a, 'o> {
    rest: &'a str,
    out: &'o mut Vec<String>,
    word: String,
}

impl<'a> Reader<'a, '_> {
    fn read(mut self) {
        while let Some(c) = self.rest.chars().next() {
            if !self.step(c) {
                break;
            }
        }
        self.end_component();
    }

    /// Reads on from `c`; false at the end of the path.
    fn step(&mut self, c: char) -> bool {
        if self.word == "operator" && !c.is_alphanumeric() && c != '_' {
            return self.operator();
        }
        match c {
            ':' if self.rest.starts_with("::") => {
                self.end_component();
                self.skip(2);
            }
            '<' if self.rest.starts_with("<lambda") => {
                self.group('<', '>');
                self.word.push_str("{closure}");
            }
            '<' if self.word.is_empty() && self.out.is_empty() => self.qualified_self(),
            '<' => {
                self.group('<', '>');
            }
            '{' => {
                self.group('{', '}');
                self.word.push_str("{closure}");
            }
            '(' => return self.parentheses(),
            // `[abi:cxx11]`
            '[' => {
                self.group('[', ']');
            }
            ' ' if self.rest.trim_start().starts_with("[clone") => return false,
            // What came before was a return type.
            ' ' => {
                self.out.clear();
                self.word.clear();
                self.skip(1);
            }
            '.' if is_clone_suffix(&self.rest[1..]) => return false,
            '*' | '&' | '~' if self.word.is_empty() => self.skip(1),
            _ => {
                self.word.push(c);
                self.skip(c.len_utf8());
            }
        }
        true
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn end_component(&mut self) {
        if !self.word.is_empty() {
            self.out.push(std::mem::take(&mut self.word));
        }
    }

    /// `operator()`, `operator<<`, `operator bool`: all of it is the name.
    fn operator(&mut self) -> bool {
        let end = if let Some(after) = self.rest.strip_prefix("()") {
            self.rest.len() - after.len()
        } else {
            self.rest.find('(').unwrap_or(self.rest.len())
        };
        self.word.push_str(&self.rest[..end]);
        self.end_component();
        false
    }

    /// Skips a bracketed group and returns what was in it.
    fn group(&mut self, open: char, close: char) -> &'a str {
        let mut depth = 0usize;
        let mut before = ' ';
        for (at, c) in self.rest.char_indices() {
            if c == open {
                depth += 1;
            } else if c == close && !(close == '>' && before == '-') {
                depth -= 1;
                if depth == 0 {
                    let inside = &self.rest[1..at];
                    self.skip(at + 1);
                    return inside;
                }
            }
            before = c;
        }
        let inside = &self.rest[1..];
        self.rest = "";
        inside
    }

    /// Rust: `<Type as Trait>::method` belongs to the type.
    fn qualified_self(&mut self) {
        let inside = self.group('<', '>');
        let this = split_as(inside).trim_start_matches(['&', '*', ' ']);
        let this = this
            .strip_prefix("mut ")
            .or(this.strip_prefix("const "))
            .unwrap_or(this);
        let this = this.strip_prefix("dyn ").unwrap_or(this);
        Reader {
            rest: this,
            out: self.out,
            word: String::new(),
        }
        .read();
    }

    /// Parameters end the path, unless they are those of an enclosing function.
    fn parentheses(&mut self) -> bool {
        if self.rest.starts_with("(anonymous") || self.rest.starts_with("(unnamed") {
            self.group('(', ')');
            self.word.push_str("(anonymous)");
            return true;
        }
        // `decltype (x) std::construct_at()`: a return type with parentheses, and no name before them.
        if (self.word.is_empty() || self.word == "decltype") && self.out.is_empty() {
            self.word.clear();
            self.group('(', ')');
            return true;
        }
        self.group('(', ')');
        let after = self
            .rest
            .trim_start_matches(" const")
            .trim_start_matches(" &");
        if after.starts_with("::") {
            self.rest = after;
            return true;
        }
        false
    }
}

/// `T` of `T as Trait`.
fn split_as(text: &str) -> &str {
    let mut depth = 0i32;
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            ' ' if depth == 0 && text[at..].starts_with(" as ") => return &text[..at],
            _ => {}
        }
    }
    text
}

/// What GCC and LLVM append to copies of a function.
fn is_clone_suffix(after_dot: &str) -> bool {
    const SUFFIXES: [&str; 9] = [
        "cold",
        "part",
        "isra",
        "constprop",
        "llvm",
        "lto_priv",
        "localalias",
        "clone",
        "warm",
    ];
    SUFFIXES.iter().any(|suffix| after_dot.starts_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn names_of_c_cxx_and_rust_become_paths() {
        for (name, path) in [
            ("hot", "hot"),
            ("hot()", "hot"),
            ("cache_get.part.0", "cache_get"),
            ("do_work.cold", "do_work"),
            ("std::mutex::lock()", "std::mutex::lock"),
            (
                "Queue<int, std::vector<int> >::push(int const&)",
                "Queue::push",
            ),
            (
                "void std::__invoke_impl<void, f>(std::__invoke_other, f&&)",
                "std::__invoke_impl",
            ),
            (
                "std::lock_guard<std::mutex>::lock_guard(std::mutex&)",
                "std::lock_guard::lock_guard",
            ),
            (
                "(anonymous namespace)::Pool::run() const",
                "(anonymous)::Pool::run",
            ),
            (
                "main::{lambda(int)#1}::operator()(int) const",
                "main::{closure}::operator()",
            ),
            (
                "main()::<lambda(int)>::operator()(int) const",
                "main::{closure}::operator()",
            ),
            (
                "Pool::start()::{lambda()#1}::operator()() const",
                "Pool::start::{closure}::operator()",
            ),
            (
                "decltype (::new ((void*)(0)) std::thread((declval<void (&)()>)())) std::construct_at<std::thread, void (&)()>(std::thread*, void (&)())",
                "std::construct_at",
            ),
            ("decltype(f()) Queue::get<int>(int)", "Queue::get"),
            ("operator<<(std::ostream&, X const&)", "operator<<"),
            ("Foo::operator bool() const", "Foo::operator bool"),
            ("Foo::~Foo()", "Foo::Foo"),
            ("Foo::name[abi:cxx11](int) const", "Foo::name"),
            ("do_work [clone .cold]", "do_work"),
            ("Foo::run(int) [clone .part.0]", "Foo::run"),
            ("<[prog::Item] as prog::Sort>::sort", "sort"),
            (
                "std::sync::mutex::Mutex<T>::lock",
                "std::sync::mutex::Mutex::lock",
            ),
            (
                "std::sync::mutex::Mutex<T>::lock::h0123456789abcdef",
                "std::sync::mutex::Mutex::lock",
            ),
            ("prog::worker::{{closure}}", "prog::worker::{closure}"),
            ("prog::main::{closure#0}", "prog::main::{closure}"),
            (
                "<std::sync::poison::mutex::MutexGuard<T> as core::ops::drop::Drop>::drop",
                "std::sync::poison::mutex::MutexGuard::drop",
            ),
            (
                "<&mut prog::Reader as std::io::Read>::read",
                "prog::Reader::read",
            ),
            (
                "<prog::Shard<fn(u32) -> u64>>::insert",
                "prog::Shard::insert",
            ),
            ("_ZN4oops", "_ZN4oops"),
            ("broken<template", "broken"),
            ("", ""),
        ] {
            assert_eq!(short(name), path, "{name}");
        }
    }

    #[test]
    fn no_name_makes_it_panic() {
        let pieces = [
            "<", ">", "(", ")", "{", "}", "[", "]", "::", " as ", "operator", "é", " ", "->", ".",
            "a",
        ];
        let mut seed = 1u32;
        for _ in 0..20_000 {
            let mut name = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                name.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            let _ = short(&name);
        }
    }
}
