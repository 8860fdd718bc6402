//! Names short enough for a line of a report.

/// The path of a demangled function: no return type, parameters, template arguments, ABI tags, hashes or
/// anonymous namespaces; closures and lambdas are `{closure}`. A path of more than `max` characters
/// loses its outer components, and then its middle.
pub fn shorten(function: &str, max: usize) -> String {
    let mut parts = Vec::new();
    Reader {
        rest: function,
        parts: &mut parts,
        word: String::new(),
    }
    .read();
    if parts.len() > 1 && parts.last().is_some_and(|p| is_hash(p)) {
        parts.pop();
    }
    parts.dedup_by(|a, b| a == CLOSURE && b == CLOSURE);
    if parts.is_empty() {
        return clip(function, max);
    }
    let mut first = 0;
    while parts[first..].join("::").chars().count() > max && first + 2 < parts.len() {
        first += 1;
    }
    clip(&parts[first..].join("::"), max)
}

const CLOSURE: &str = "{closure}";

/// The head and the tail of what is too long: the tail tells methods of a class apart.
fn clip(text: &str, max: usize) -> String {
    let count = text.chars().count();
    if count <= max {
        return text.to_owned();
    }
    if max < 5 {
        return text.chars().take(max).collect();
    }
    let head = (max - 2) / 2;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - (max - 2 - head)).collect();
    format!("{start}..{end}")
}

/// `h0123456789abcdef`, which the older mangling of Rust ends with.
fn is_hash(word: &str) -> bool {
    word.len() == 17 && word.starts_with('h') && word[1..].bytes().all(|b| b.is_ascii_hexdigit())
}

/// Reads a name from left to right and collects the components of its path.
struct Reader<'a, 'p> {
    rest: &'a str,
    parts: &'p mut Vec<String>,
    word: String,
}

impl<'a> Reader<'a, '_> {
    fn read(mut self) {
        while let Some(c) = self.rest.chars().next() {
            if self.word == "operator" && !(c.is_alphanumeric() || c == '_') {
                self.operator();
                return;
            }
            match c {
                ':' if self.rest.starts_with("::") => {
                    self.finish_part();
                    self.skip(2);
                }
                '<' if self.rest.starts_with("<lambda") => self.closure('<', '>'),
                '<' if self.word.is_empty() && self.parts.is_empty() => self.qualified_type(),
                '<' => _ = self.group('<', '>'),
                '{' => self.closure('{', '}'),
                // `[abi:cxx11]`, and ` [clone .cold]` of other demanglers.
                '[' => _ = self.group('[', ']'),
                '(' => {
                    let inside = self.group('(', ')');
                    let scope = inside.starts_with("anonymous") && self.word.is_empty();
                    let enclosing = self.rest.trim_start_matches(" const").starts_with("::");
                    if !scope && !enclosing {
                        break;
                    }
                    self.rest = self.rest.trim_start_matches(" const");
                }
                // What came before was a return type.
                ' ' if !self.rest[1..].trim_start().starts_with('[') => {
                    self.parts.clear();
                    self.word.clear();
                    self.skip(1);
                }
                ' ' | '*' | '&' => self.skip(1),
                _ => {
                    self.word.push(c);
                    self.skip(c.len_utf8());
                }
            }
        }
        self.finish_part();
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn finish_part(&mut self) {
        if !self.word.is_empty() {
            self.parts.push(std::mem::take(&mut self.word));
        }
    }

    /// `operator()`, `operator<<`, `operator bool`: brackets may be part of the name.
    fn operator(&mut self) {
        const BRACKETS: [&str; 11] = [
            "()", "[]", "<=>", "<<=", "<<", "<=", ">>=", ">>", "<", ">", "->",
        ];
        let symbol = BRACKETS
            .iter()
            .find(|symbol| self.rest.starts_with(**symbol));
        let end = match symbol {
            Some(symbol) => symbol.len(),
            None => self.rest.find(['(', '<', '[']).unwrap_or(self.rest.len()),
        };
        self.word.push_str(self.rest[..end].trim_end());
        if self.parts.last().is_some_and(|p| p == CLOSURE) {
            // A lambda has no other member worth a word.
            self.word.clear();
        }
        self.finish_part();
    }

    fn closure(&mut self, open: char, close: char) {
        self.group(open, close);
        // `{{closure}}`, `{closure#0}`, `{lambda(int)#1}`; `{impl#3}` is only a place.
        self.word.push_str(CLOSURE);
    }

    /// Rust: `<Type as Trait>::method` is a method of the type.
    fn qualified_type(&mut self) {
        let inside = self.group('<', '>');
        let mut this = match inside.split_once(" as ") {
            // An ` as ` inside the type's own arguments splits it there, which drops only arguments.
            Some((this, _)) => this,
            None => inside,
        };
        for prefix in ["&", "*", "mut ", "const ", "dyn "] {
            this = this.trim_start_matches(prefix);
        }
        Reader {
            rest: this,
            parts: self.parts,
            word: String::new(),
        }
        .read();
    }

    /// Skips a bracketed group, unclosed ones to the end, and returns its inside.
    fn group(&mut self, open: char, close: char) -> &'a str {
        let mut depth = 0u32;
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
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn names_become_paths() {
        for (full, short) in [
            ("main", "main"),
            ("work(int, char const*)", "work"),
            ("void work<int>(int)", "work"),
            ("std::mutex::lock()", "std::mutex::lock"),
            ("bank::Ring<long, 16>::push(long)", "bank::Ring::push"),
            (
                "std::map<int, long, std::less<int> >::operator[](int const&)",
                "std::map::operator[]",
            ),
            (
                "std::__cxx11::to_string[abi:cxx11](int)",
                "std::__cxx11::to_string",
            ),
            ("(anonymous namespace)::Pool::run() const", "Pool::run"),
            (
                "main::{lambda(int)#1}::operator()(int) const",
                "main::{closure}",
            ),
            (
                "Pool::start() const::{lambda()#1}::operator()() const",
                "Pool::start::{closure}",
            ),
            ("work(int)::<lambda(long, long)>", "work::{closure}"),
            (
                "std::ostream& std::operator<<(std::ostream&, char)",
                "std::operator<<",
            ),
            ("Foo::operator bool() const", "Foo::operator bool"),
            ("operator new(unsigned long)", "operator new"),
            ("operator new[](unsigned long)", "operator new"),
            (
                "bool std::less<void>::operator()<int, int>(int&&, int&&) const",
                "std::less::operator()",
            ),
            (
                "bool operator< <int>(A<int> const&, A<int> const&)",
                "operator<",
            ),
            ("Box::operator->() const", "Box::operator->"),
            ("Foo::~Foo()", "Foo::~Foo"),
            ("grow(int) [clone .cold]", "grow"),
            ("main._omp_fn.0", "main._omp_fn.0"),
            ("prog::worker::{{closure}}", "prog::worker::{closure}"),
            (
                "prog::main::{closure#0}::{closure#1}",
                "prog::main::{closure}",
            ),
            ("app::main::h0123456789abcdef", "app::main"),
            ("<app::Job<T> as core::ops::Drop>::drop", "app::Job::drop"),
            (
                "<&mut app::Reader as std::io::Read>::read",
                "app::Reader::read",
            ),
            ("<app::Shard<fn(u32) -> u64>>::insert", "app::Shard::insert"),
            (
                "core::ptr::drop_in_place::<alloc::string::String>",
                "core::ptr::drop_in_place",
            ),
            ("getLock()::instance", "getLock::instance"),
            ("broken<unclosed", "broken"),
            ("_ZN4oops", "_ZN4oops"),
            ("", ""),
        ] {
            assert_eq!(shorten(full, 80), short, "{full}");
        }
    }

    #[test]
    fn long_paths_lose_their_outer_end_first() {
        assert_eq!(
            shorten("alpha::beta::gamma::delta::run()", 18),
            "gamma::delta::run"
        );
        assert_eq!(
            shorten("alpha::beta::gamma::delta::run()", 12),
            "delta::run"
        );
        assert_eq!(
            shorten("a_very_long_function_name_indeed", 12),
            "a_ver..ndeed"
        );
        assert_eq!(shorten("abcdefgh", 3), "abc");
        assert_eq!(shorten("abcdefgh", 0), "");
    }

    #[test]
    fn brackets_in_any_order_are_read_to_their_end() {
        let pieces = [
            "<", ">", "(", ")", "{", "}", "[", "]", "::", " as ", "operator", "é", " ", "->", "a",
        ];
        let mut seed = 1u32;
        for _ in 0..20_000 {
            let mut name = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                name.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            assert!(shorten(&name, 10).chars().count() <= 10, "{name}");
        }
    }
}
