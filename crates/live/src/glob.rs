//! Patterns of names: `*` stands for any characters, `?` for one.

/// Whether the whole name matches. Linear in the product of both lengths at most.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where the last star is, and how much of the name it takes.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, taken)) = star else {
                    return false;
                };
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Whether it stands for more than one name.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_take_any_characters_and_question_marks_one() {
        for (pattern, name, expected) in [
            ("pool-*", "pool-12", true),
            ("pool-*", "pool-", true),
            ("pool-*", "spool-1", false),
            ("*-?", "pool-1", true),
            ("*-?", "pool-12", false),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xaxbx", false),
            ("", "", true),
            ("", "x", false),
            ("*", "", true),
            ("ä?", "äö", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(&pattern, &"a".repeat(5_000)));
    }
}
