//! File names with `%e` (executable) and `%p` (process id) in them.

/// Fills a pattern in. `%%` is a percent sign; other letters after one stay as they are.
pub fn fill(pattern: &str, exe: &str, pid: u32) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('e') => out.push_str(exe),
            Some('p') => out.push_str(&pid.to_string()),
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out
}

/// The last component of a command's name, fit for a file name.
pub fn exe_name(command: &str) -> String {
    let name = command
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    if name.is_empty() || name == "." || name == ".." {
        "program".into()
    } else {
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name) in [
            ("%e.%p.convoy", "server.42.convoy"),
            ("run.convoy", "run.convoy"),
            ("100%%-%x-%", "100%-%x-%"),
            ("", ""),
        ] {
            assert_eq!(fill(pattern, "server", 42), name, "{pattern}");
        }
    }

    #[test]
    fn names_of_executables_never_hold_a_slash() {
        for (command, name) in [
            ("./a/server", "server"),
            ("server", "server"),
            ("", "program"),
            ("/", "program"),
            ("..", "program"),
        ] {
            assert_eq!(exe_name(command), name, "{command}");
        }
    }
}
