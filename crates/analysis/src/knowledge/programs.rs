//! Programs and libraries that are known by their names.

use convoy_model::Process;

/// Programs that run what they read, a command at a time.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "busybox"];

/// Programs that start others, beside shells: launchers of MPI and of batch systems, wrappers of one command.
const LAUNCHERS: [&str; 21] = [
    "mpirun",
    "mpiexec",
    "orterun",
    "orted",
    "prterun",
    "prted",
    "prte",
    "hydra_pmi_proxy",
    "hydra_bstrap_proxy",
    "srun",
    "slurmstepd",
    "env",
    "time",
    "timeout",
    "nice",
    "ionice",
    "taskset",
    "numactl",
    "setsid",
    "stdbuf",
    "sudo",
];

/// Tools that run commands of which they know what depends on what.
const BUILD_TOOLS: [&str; 8] = [
    "make", "gmake", "ninja", "samu", "scons", "bmake", "rake", "meson",
];

/// A program that starts another one for each piece of a list.
#[derive(Debug)]
pub(crate) struct StartsEach {
    name: &'static str,
    /// How it gives it many of them.
    pub(crate) how: &'static str,
    /// All that it runs is for that.
    pub(crate) does_nothing_else: bool,
}

/// Those that are known.
const START_EACH: [StartsEach; 3] = [
    StartsEach {
        name: "xargs",
        how: "xargs -n 100 instead of -n 1, -L 1 or -I",
        does_nothing_else: true,
    },
    StartsEach {
        name: "parallel",
        how: "parallel -n 50",
        does_nothing_else: true,
    },
    StartsEach {
        name: "find",
        how: "find -exec ... {} + instead of -exec ... \\;",
        does_nothing_else: false,
    },
];

/// Programs that compress with one thread, unless they are told otherwise, and what does the same with several.
const WITH_THREADS: [(&str, &str); 5] = [
    ("gzip", "pigz instead of gzip"),
    ("bzip2", "lbzip2 or pbzip2 instead of bzip2"),
    ("xz", "xz -T0"),
    ("zstd", "zstd -T0"),
    ("lzip", "plzip instead of lzip"),
];
/// How they are told to reverse it, or to look at what was compressed, which needs one thread: letters, and long options.
const REVERSED: (&str, [&str; 4]) = ("dtl", ["--decompress", "--uncompress", "--test", "--list"]);

/// A server with one process for each connection that divides a request among several if it may.
pub(crate) struct Divides {
    /// Where it waits for the next request.
    pub(crate) waits: &'static str,
    /// What is never divided.
    pub(crate) keeps_whole: &'static [&'static str],
}

/// It, and what it takes.
const DIVIDES_REQUESTS: (&str, &str, Divides) = (
    "postgres",
    "a parallel query: EXPLAIN shows whether workers are planned; max_parallel_workers_per_gather above 0, large tables, and functions \
     that are PARALLEL SAFE allow them",
    Divides {
        waits: "secure_read",
        keeps_whole: &[
            "heap_insert",
            "heap_multi_insert",
            "heap_update",
            "heap_delete",
            "CopyFrom",
            "DoCopy",
            "vacuum",
        ],
    },
);

/// Run-time libraries of OpenMP: GCC's, LLVM's, Intel's.
const OPENMP: [&str; 3] = ["libgomp", "libomp", "libiomp"];
/// Of linear algebra whose threads spin; the second is what NumPy's and SciPy's wheels bring along.
const OPENBLAS: [&str; 2] = ["libopenblas", "libscipy_openblas"];

/// The name without what comes after a dot: `mpiexec.hydra`.
fn stem(process: &Process) -> &str {
    process.name.split('.').next().unwrap_or_default()
}

/// What is known of a process that starts one for each piece of a list, if it is one.
pub(crate) fn starts_each(process: &Process) -> Option<&'static StartsEach> {
    let is = |of: &&StartsEach| of.name == process.name || of.name == process.script;
    START_EACH.iter().find(is)
}

/// Whether a script looks what there is, in many short steps: configure.
pub(crate) fn configures(process: &Process) -> bool {
    let is = |arg: &String| arg.to_ascii_lowercase().ends_with("configure");
    process.args.iter().any(is)
}

/// Whether a process is a shell.
pub(crate) fn is_shell(process: &Process) -> bool {
    SHELLS.contains(&stem(process))
}

/// What a process is called as a tool for builds, if it is one: some are scripts of an interpreter.
pub(crate) fn build_tool(process: &Process) -> Option<&str> {
    const SCRIPTS: [&str; 3] = ["scons", "meson", "rake"];
    let script = process.script.as_str();
    let script = script.strip_suffix(".py").unwrap_or(script);
    let known = || Some(stem(process)).filter(|name| BUILD_TOOLS.contains(name));
    let mut scripts = SCRIPTS.into_iter();
    scripts.find(|name| *name == script).or_else(known)
}

/// Whether a tool for builds may start several commands at a time: it was told to, or does so unless told otherwise.
pub(crate) fn starts_several(process: &Process) -> bool {
    const ALWAYS: [&str; 3] = ["ninja", "samu", "meson"];
    // What comes before its script is the interpreter's.
    let own = process.args.iter().position(|arg| {
        !process.script.is_empty() && arg.rsplit('/').next() == Some(&process.script)
    });
    match jobs(process.args.get(own.unwrap_or(0)..).unwrap_or_default()) {
        Some(jobs) => jobs != "1",
        None => build_tool(process).is_some_and(|tool| ALWAYS.contains(&tool)),
    }
}

/// The number of jobs that a tool for builds was told, as it was told; empty is as many as there are. `None` if it was told nothing.
fn jobs(args: &[String]) -> Option<&str> {
    /// Short options of these tools whose value follows, so that no letter of it is an option.
    const WITH_VALUE: &str = "CfIloWE";
    let mut args = args.iter().skip(1).map(String::as_str).peekable();
    while let Some(arg) = args.next() {
        let told = match (arg.strip_prefix("--"), arg.strip_prefix('-')) {
            (Some(long), _) => long.strip_prefix("jobs").map(|n| n.trim_start_matches('=')),
            (None, Some(short)) => {
                let at = short.find(|c: char| c == 'j' || WITH_VALUE.contains(c));
                at.and_then(|at| short.get(at..)?.strip_prefix('j'))
            }
            (None, None) => None,
        };
        let is_number = |n: &&str| n.starts_with(|c: char| c.is_ascii_digit());
        match told {
            Some("") => return Some(args.peek().copied().filter(is_number).unwrap_or_default()),
            Some(jobs) => return Some(jobs),
            None => {}
        }
    }
    None
}

/// What it takes that a server divides a request which it can divide.
pub(crate) fn divides_requests(process: &Process) -> Option<(&'static str, Divides)> {
    let (name, how, server) = DIVIDES_REQUESTS;
    (process.name == name).then_some((how, server))
}

/// What does with several threads what a process does with one.
pub(crate) fn with_threads(process: &Process) -> Option<&'static str> {
    let mut known = WITH_THREADS.iter();
    let (_, instead) = known.find(|(name, _)| *name == process.name)?;
    let reverses = |arg: &String| {
        let letters = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let short = letters.is_some_and(|of| of.contains(|c| REVERSED.0.contains(c)));
        short || REVERSED.1.contains(&arg.as_str())
    };
    (!process.args.iter().skip(1).any(reverses)).then_some(*instead)
}

/// Whether a process only starts others.
pub(crate) fn is_launcher(process: &Process) -> bool {
    is_shell(process) || LAUNCHERS.contains(&stem(process))
}

/// Whether a file is a run-time library of OpenMP.
pub(crate) fn is_openmp(module: &str) -> bool {
    OPENMP.iter().any(|library| module.starts_with(library))
}

/// Whether a file is OpenBLAS.
pub(crate) fn is_openblas(module: &str) -> bool {
    OPENBLAS.iter().any(|library| module.starts_with(library))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Process {
        Process {
            name: name.into(),
            ..Process::default()
        }
    }

    #[test]
    fn shells_and_wrappers_start_others_whatever_their_suffix() {
        assert!(is_shell(&named("bash")) && is_launcher(&named("bash")));
        assert!(is_launcher(&named("mpiexec.hydra")) && !is_shell(&named("mpiexec.hydra")));
        assert!(!is_launcher(&named("timeouts")) && !is_shell(&named("shred")));
    }

    fn tool(args: &str) -> Process {
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        Process {
            script: match args[0].starts_with("python") {
                true => args.get(1).cloned().unwrap_or_default(),
                false => String::new(),
            },
            args: args.clone(),
            ..named(&args[0])
        }
    }

    #[test]
    fn a_build_starts_several_commands_if_it_is_told_to() {
        for args in [
            "make -sj4",
            "make -j",
            "make -j all",
            "make --jobs=4",
            "make -C /home/jo -j 3",
            "ninja",
            "ninja -C out",
        ] {
            assert!(starts_several(&tool(args)), "{args}");
        }
        for args in [
            "make -s join --justify",
            "make -j1",
            "make -j 1",
            "make --jobs=1",
            "make -C/home/jo -Ijpeg",
            "make -fj4",
            "ninja -j1",
        ] {
            assert!(!starts_several(&tool(args)), "{args}");
        }
    }

    #[test]
    fn what_compresses_with_one_thread_has_another_that_does_it_with_several() {
        let instead = |args: &str| with_threads(&tool(args));
        assert_eq!(instead("gzip -6 -c"), Some("pigz instead of gzip"));
        assert_eq!(instead("gzip -dc"), None);
        assert_eq!(instead("xz --test"), None);
        assert_eq!(instead("cat x"), None);
    }

    #[test]
    fn tools_for_builds_may_be_scripts() {
        assert_eq!(build_tool(&tool("python3 scons")), Some("scons"));
        assert_eq!(build_tool(&tool("gmake all")), Some("gmake"));
        assert_eq!(build_tool(&tool("python3 train.py")), None);
        assert_eq!(build_tool(&tool("python3 make.py")), None);
    }

    #[test]
    fn each_runtime_of_openmp_is_known_by_its_file() {
        assert!(["libgomp.so.1", "libomp.so.5", "libiomp5.so"]
            .iter()
            .all(|of| is_openmp(of)));
        assert!(!is_openmp("app"));
    }
}
