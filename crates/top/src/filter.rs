//! Which rows a person wants to see.

use regex_lite::{Regex, RegexBuilder};

/// A text that a name has in it, or a regular expression that it matches; letter case does not count.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    text: String,
    lower: String,
    regex: Option<Regex>,
}

impl Filter {
    /// Of what was typed. Names such as `operator()` are meant as they stand far more often than as an expression, so
    /// both are tried, and what is no expression is plain text.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            lower: text.to_lowercase(),
            regex: (!text.is_empty())
                .then(|| RegexBuilder::new(text).case_insensitive(true).build().ok())
                .flatten(),
        }
    }

    /// As it was typed; empty = everything.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a name is to be shown.
    pub fn hits(&self, name: &str) -> bool {
        self.text.is_empty()
            || name.to_lowercase().contains(&self.lower)
            || self
                .regex
                .as_ref()
                .is_some_and(|regex| regex.is_match(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_expressions_both_work() {
        let hits = |filter: &str, name: &str| Filter::new(filter).hits(name);
        assert!(hits("", "anything"));
        assert!(hits("CACHE", "cache_lock"));
        assert!(hits("^cache.*[0-9]$", "cache_lock7"));
        assert!(!hits("^lock", "cache_lock"));
        assert!(hits("a[3]", "mutex a[3]"), "as it stands");
        assert!(hits("f(", "f()"), "no expression at all");
        assert!(!hits("f(", "g()"));
    }
}
