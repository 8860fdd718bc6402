//! What programs are called, and which of them run other programs' code.

/// How a program runs what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// An interpreter: it has threads, but one at a time runs the program's code.
    OneAtATime,
    /// A virtual machine whose programs have one thread, in which all events are handled, unless they make more.
    EventLoop,
    /// A virtual machine that always has threads of its own: which one has a program's tasks is up to the program.
    Threads,
}

/// Names, without versions, of those that run other programs' code.
const RUNS: [(&str, Runs); 11] = [
    ("python", Runs::OneAtATime),
    ("ruby", Runs::OneAtATime),
    ("perl", Runs::OneAtATime),
    ("php", Runs::OneAtATime),
    ("lua", Runs::OneAtATime),
    ("node", Runs::EventLoop),
    ("deno", Runs::EventLoop),
    ("bun", Runs::EventLoop),
    ("java", Runs::Threads),
    ("beam", Runs::Threads),
    ("dotnet", Runs::Threads),
];

/// Threads that a virtual machine has for itself: they wait for requests, and nobody waits for them for long.
const SERVICES: [&str; 19] = [
    "C# CompilerThre",
    "GC Thread#",
    "G# ",
    "VM Thread",
    "VM Periodic Tas",
    "Sweeper thread",
    "Signal Dispatch",
    "Finalizer",
    "Reference Handl",
    "Common-Cleaner",
    "Service Thread",
    "Monitor Deflati",
    "Notification Th",
    "DestroyJavaVM",
    "V# Worker",
    "V# DefaultWorke",
    ".NET Finalizer",
    ".NET SynchManag",
    ".NET Tiered Com",
];

/// Whether threads of these names (with digits replaced by `#`) are a virtual machine's own.
pub fn serves_a_machine(name_pattern: &str) -> bool {
    SERVICES.iter().any(|name| name_pattern.starts_with(name))
}

/// How a program of this name runs others' code; `None` if it is not known to.
pub fn runs(name: &str) -> Option<Runs> {
    let mut known = RUNS.iter();
    let of = |(of, _): &&(&str, Runs)| name.strip_prefix(of).is_some_and(is_variant);
    known.find(of).map(|(_, runs)| *runs)
}

/// Whether a name goes on with a version or a variant: `python3.11`, `php-fpm8.2`, `luajit-2.1.0-beta3`. `bunzip2`, `node_exporter`,
/// `node2vec` and `lua-language-server` are other programs.
fn is_variant(rest: &str) -> bool {
    const VARIANTS: [&str; 5] = ["js", "jit", "-fpm", "-cgi", ".smp"];
    /// Python without its lock, and for debugging.
    const BUILDS: [&str; 2] = ["t", "d"];
    let mut variants = VARIANTS.iter();
    let rest = variants
        .find_map(|variant| rest.strip_prefix(variant))
        .unwrap_or(rest);
    let version = rest.strip_prefix('-').unwrap_or(rest);
    let after = version.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let has_version = after.len() < version.len();
    rest.is_empty()
        || (has_version && (after.is_empty() || after.starts_with('-') || BUILDS.contains(&after)))
}

/// The last component of a path. A file that was deleted meanwhile is still called by its name.
pub(crate) fn base_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// How a process can start its own executable.
const ITSELF: &str = "/proc/self/exe";

/// What people call a process: the name that it was started by, as one file may be several programs (`redis-server` is a link to
/// `redis-check-rdb`, `sh` one to `dash`). Not where it looks like a title that the process gave itself; and programs that run others'
/// code, whose titles are up to those, are called by their file.
pub(crate) fn name<'a>(exe: &'a str, args: &'a [String]) -> &'a str {
    let file = base_name(exe);
    // A title of several words may begin with the name: `redis-server *:6379`. Who starts itself once more has no name for that.
    let first = args.first().and_then(|arg| arg.split_whitespace().next());
    let first = first.filter(|path| *path != ITSELF);
    let called = first.map_or("", base_name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let plain =
        called.starts_with(|c: char| c.is_ascii_alphanumeric()) && called.chars().all(is_name);
    match plain && runs(file).is_none() {
        true => called,
        false => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called<'a>(exe: &'a str, first: &str, args: &'a mut Vec<String>) -> &'a str {
        args.push(first.to_owned());
        name(exe, args)
    }

    #[test]
    fn a_process_is_called_as_it_was_started() {
        for (exe, first, name) in [
            (
                "/usr/bin/redis-check-rdb",
                "redis-server *:6379",
                "redis-server",
            ),
            ("/usr/bin/dash", "/bin/sh", "sh"),
            ("/usr/bin/dash", "-sh", "dash"),
            ("/usr/sbin/nginx", "nginx: worker process", "nginx"),
            (
                "/usr/lib/postgresql/15/bin/postgres",
                "postgres: checkpointer ",
                "postgres",
            ),
            ("/usr/bin/python3.11", "worker one", "python3.11"),
            ("/opt/app (deleted)", "", "app"),
            ("/opt/runc", "/proc/self/exe", "runc"),
        ] {
            assert_eq!(called(exe, first, &mut Vec::new()), name, "{first}");
        }
        assert_eq!(
            name("/opt/app", &[]),
            "app",
            "nothing is known of its arguments"
        );
    }

    #[test]
    fn a_version_is_no_other_program() {
        assert_eq!(runs("python3.11"), Some(Runs::OneAtATime));
        assert_eq!(runs("beam.smp"), Some(Runs::Threads));
        assert_eq!(runs("nodejs"), Some(Runs::EventLoop));
        assert_eq!(runs("php-fpm8.2"), Some(Runs::OneAtATime));
        assert_eq!(runs("python3.13t"), Some(Runs::OneAtATime));
        assert_eq!(runs("luajit-2.1.0-beta3"), Some(Runs::OneAtATime));
        for name in [
            "bunzip2",
            "node_exporter",
            "node2vec",
            "lua-language-server",
            "app",
        ] {
            assert_eq!(runs(name), None, "{name}");
        }
    }
}
