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

/// How a program of this name runs others' code; `None` if it is not known to.
pub fn runs(name: &str) -> Option<Runs> {
    // What follows is a version or a variant: `python3.11`, `php-fpm8.2`, `luajit`; and `bunzip2` is none of them.
    let is_variant = |rest: &str| {
        !rest.starts_with(|c: char| c.is_alphabetic()) || ["js", "jit"].contains(&rest)
    };
    let mut known = RUNS.iter();
    known
        .find(|(of, _)| name.strip_prefix(of).is_some_and(is_variant))
        .map(|(_, runs)| *runs)
}

/// The last component of a path. A file that was deleted meanwhile is still called by its name.
pub(crate) fn base_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// What people call a process: the name that it was started by, as one file may be several programs (`redis-server` is a link to
/// `redis-check-rdb`, `sh` one to `dash`). Not where it looks like a title that the process gave itself; and programs that run others'
/// code, whose titles are up to those, are called by their file.
pub(crate) fn name<'a>(exe: &'a str, args: &'a [String]) -> &'a str {
    let file = base_name(exe);
    // A title of several words may begin with the name: `redis-server *:6379`.
    let first = args.first().and_then(|arg| arg.split_whitespace().next());
    let called = first.map_or("", base_name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let plain =
        called.starts_with(|c: char| c.is_ascii_alphanumeric()) && called.chars().all(is_name);
    match plain && runs(file).is_none() {
        true => called,
        false => file,
    }
}

/// What a program that runs others' code was given to run, without its folder: a file, or a module or class. Empty if it is no such
/// program, or was not told so.
pub(crate) fn script<'a>(exe: &str, args: &'a [String]) -> &'a str {
    /// What follows these is no script but something for the option before.
    const TAKE_ONE: [&str; 9] = [
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "-W",
        "-X",
        "-r",
        "--require",
    ];
    /// What follows these is code.
    const CODE: [&str; 3] = ["-c", "-e", "--eval"];
    if runs(base_name(exe)).is_none() {
        return "";
    }
    let mut args = args.iter().skip(1).map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "-m" | "-jar" => return args.next().map_or("", base_name),
            _ if CODE.contains(&arg) => return "",
            _ if TAKE_ONE.contains(&arg) => _ = args.next(),
            _ if arg.starts_with('-') => {}
            _ => return base_name(arg),
        }
    }
    ""
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
    fn what_is_run_is_the_first_word_that_is_no_option() {
        for (exe, args, ran) in [
            (
                "/usr/bin/node",
                "node --no-warnings -r dotenv /srv/app/server.js 8080",
                "server.js",
            ),
            (
                "/usr/bin/python3.11",
                "python3 -X dev -m http.server 80",
                "http.server",
            ),
            ("/usr/bin/python3.11", "python3 -c spawn_main(5)", ""),
            (
                "/usr/lib/jvm/bin/java",
                "java -Xmx1g -cp a.jar:b.jar org.Main x",
                "org.Main",
            ),
            ("/usr/lib/jvm/bin/java", "java -jar /opt/app.jar", "app.jar"),
            ("/usr/bin/node", "node", ""),
            ("/usr/sbin/nginx", "nginx conf", ""),
        ] {
            let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
            assert_eq!(script(exe, &args), ran, "{args:?}");
        }
    }

    #[test]
    fn a_version_is_no_other_program() {
        assert_eq!(runs("python3.11"), Some(Runs::OneAtATime));
        assert_eq!(runs("beam.smp"), Some(Runs::Threads));
        assert_eq!(runs("nodejs"), Some(Runs::EventLoop));
        assert_eq!(runs("php-fpm8.2"), Some(Runs::OneAtATime));
        assert_eq!(runs("bunzip2"), None);
        assert_eq!(runs("app"), None);
    }
}
