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

/// Run-time libraries of OpenMP: GCC's, LLVM's, Intel's.
const OPENMP: [&str; 3] = ["libgomp", "libomp", "libiomp"];

/// The name without what comes after a dot: `mpiexec.hydra`.
fn stem(process: &Process) -> &str {
    process.name.split('.').next().unwrap_or_default()
}

/// Whether a process is a shell.
pub(crate) fn is_shell(process: &Process) -> bool {
    SHELLS.contains(&stem(process))
}

/// Whether a process is a tool for builds.
pub(crate) fn is_build_tool(process: &Process) -> bool {
    BUILD_TOOLS.contains(&stem(process))
}

/// Whether a tool for builds may start several commands at a time: it was told to, or does so unless told otherwise.
pub(crate) fn starts_several(tool: &Process) -> bool {
    const ALWAYS: [&str; 3] = ["ninja", "samu", "meson"];
    let short = |arg: &str| arg.starts_with('-') && !arg.starts_with("--") && arg.contains('j');
    let told = |arg: &String| short(arg) || arg.starts_with("--jobs");
    ALWAYS.contains(&stem(tool)) || tool.args.iter().skip(1).any(told)
}

/// Whether a process only starts others.
pub(crate) fn is_launcher(process: &Process) -> bool {
    is_shell(process) || LAUNCHERS.contains(&stem(process))
}

/// Whether a file is a run-time library of OpenMP.
pub(crate) fn is_openmp(module: &str) -> bool {
    OPENMP.iter().any(|library| module.starts_with(library))
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

    #[test]
    fn a_build_starts_several_commands_if_it_is_told_to() {
        let told = |args: &[&str]| {
            starts_several(&Process {
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                ..named(args[0])
            })
        };
        assert!(told(&["make", "-sj4"]) && told(&["make", "--jobs=4"]) && told(&["ninja"]));
        assert!(!told(&["make", "-s", "join", "--justify"]));
    }

    #[test]
    fn each_runtime_of_openmp_is_known_by_its_file() {
        assert!(["libgomp.so.1", "libomp.so.5", "libiomp5.so"]
            .iter()
            .all(|of| is_openmp(of)));
        assert!(!is_openmp("app"));
    }
}
