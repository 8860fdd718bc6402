//! What the same thing is called in two builds of a program: names without what a rebuild changes.

use convoy_model::{Site, SiteFrame};

/// A place in the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Demangled; empty = unknown.
    pub function: String,
    /// File name of the source file, else of the module.
    pub file: String,
    /// The whole path of the source file, empty = unknown.
    pub path: String,
    /// Line; 0 = unknown.
    pub line: u32,
    /// Address in the module: tells places without lines apart.
    pub offset: u64,
}

impl Place {
    /// The frame of a call stack that tells most.
    pub fn of_site(site: &Site) -> Option<Self> {
        convoy_report::names::shown(site).map(Self::of)
    }

    /// Of one frame.
    pub fn of(frame: &SiteFrame) -> Self {
        let file = match frame.file.as_str() {
            "" => &frame.module,
            file => file,
        };
        Self {
            function: frame.function.clone(),
            file: base(file).to_owned(),
            path: frame.file.clone(),
            line: frame.line,
            offset: if frame.line == 0 { frame.offset } else { 0 },
        }
    }

    /// What a rebuild does not change: function and file. A place without a name has only its address.
    pub fn code(&self) -> (String, String) {
        if self.function.is_empty() {
            (format!("+0x{:x}", self.offset), self.file.clone())
        } else {
            (self.function.clone(), self.file.clone())
        }
    }

    /// Where in the function: a line, or an address.
    pub fn spot(&self) -> (u32, u64) {
        (self.line, self.offset)
    }

    /// For people: `cache_get() cache.c:41`.
    pub fn label(&self) -> String {
        let frame = SiteFrame {
            function: self.function.clone(),
            file: self.path.clone(),
            line: self.line,
            module: if self.path.is_empty() {
                self.file.clone()
            } else {
                String::new()
            },
            offset: self.offset,
            ..SiteFrame::default()
        };
        convoy_report::names::frame(&frame)
    }
}

/// The last part of a path: builds may be made in different directories.
pub fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A name without what a rebuild or another run changes: `#2`, lines after a file name, addresses.
/// `mutex initialised in cache_new() cache.c:41 #2` is `mutex initialised in cache_new() cache.c`.
pub fn name(text: &str) -> String {
    let words = text.split(' ').filter(|word| !is_number_sign(word));
    let words: Vec<String> = words.map(word).collect();
    words.join(" ")
}

/// The name of one of several of a kind, without which one.
pub fn shown(text: &str) -> String {
    let words: Vec<_> = text
        .split(' ')
        .filter(|word| !is_number_sign(word))
        .collect();
    words.join(" ")
}

fn is_number_sign(word: &str) -> bool {
    word.strip_prefix('#')
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn word(word: &str) -> String {
    // Short ones are offsets into a variable, which say which of its locks it is.
    const ADDRESS_DIGITS: usize = 6;
    if let Some(hex) = word.strip_prefix("0x") {
        if hex.len() >= ADDRESS_DIGITS && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return "0x*".into();
        }
    }
    match word.rsplit_once(':') {
        Some((file, line))
            if file.contains('.')
                && !line.is_empty()
                && line.bytes().all(|b| b.is_ascii_digit()) =>
        {
            file.to_owned()
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_a_rebuild_changes_and_nothing_else() {
        for (text, expected) in [
            (
                "mutex initialised in cache_new() cache.c:41 #2",
                "mutex initialised in cache_new() cache.c",
            ),
            ("staticMutexes+0x30", "staticMutexes+0x30"),
            ("mutex 0x7f0010203040", "mutex 0x*"),
            ("a::b::lock", "a::b::lock"),
            ("queue #", "queue #"),
        ] {
            assert_eq!(name(text), expected);
        }
        assert_eq!(shown("m in f() a.c:3 #12"), "m in f() a.c:3");
    }

    #[test]
    fn a_place_is_its_function_in_whatever_directory() {
        let frame = |dir: &str, line| SiteFrame {
            function: "get".into(),
            file: format!("{dir}/cache.c"),
            line,
            ..SiteFrame::default()
        };
        let (a, b) = (Place::of(&frame("/x", 4)), Place::of(&frame("/y/z", 9)));
        assert_eq!(a.code(), b.code());
        assert_ne!(a.spot(), b.spot());
        assert_eq!(a.label(), "get() cache.c:4");
    }
}
