//! How a fixture is compiled and started, in every language.

use std::ffi::OsString;
use std::process::Command;

use convoy_harness::compile::{compile, compile_with};
use convoy_harness::needs::{missing, Missing};
use convoy_harness::Result;

use crate::expect::Expect;

/// Ranks of an MPI program: one for each processor that a case may count on.
const RANKS: &str = "2";

/// A program that is ready to run.
#[derive(Debug)]
pub struct Launch {
    words: Vec<OsString>,
}

impl Launch {
    /// The program by itself.
    pub fn bare(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        environment(&mut command);
        command
    }

    /// The program as further arguments of a recorder.
    pub fn under(&self, mut recorder: Command) -> Command {
        recorder.args(&self.words);
        environment(&mut recorder);
        recorder
    }
}

/// Containers run tests as root, which Open MPI must be told twice to accept.
fn environment(command: &mut Command) {
    for variable in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(variable, "1");
    }
}

impl Expect {
    /// What the machine lacks for a variant.
    pub fn missing(&self, variant: &str) -> Option<Missing> {
        let mut needs = vec!["cpus-2".to_owned()];
        needs.extend(self.needs.iter().cloned());
        if variant == "go" || variant == "java" {
            needs.push(variant.to_owned());
        }
        missing(&needs)
    }
}

/// Compiles a variant, broken or fixed. Languages without a preprocessor are told by an argument which
/// one to be.
pub fn launch(expect: &Expect, variant: &str, fixed: bool) -> Result<Launch> {
    let source = expect.source(variant);
    let mut flags = expect.flags.clone();
    let mut words: Vec<OsString> = Vec::new();
    let argument = fixed.then(|| OsString::from("fixed"));
    let define = fixed.then(|| "-DFX_FIXED".to_owned());
    match variant {
        "rs" => {
            flags.extend(fixed.then(|| "--cfg=fx_fixed".to_owned()));
            words.push(compile(&source, &flags)?.into());
        }
        "go" => {
            words.push(compile(&source, &flags)?.into());
            words.extend(argument);
        }
        "java" => {
            words.extend(JAVA.map(OsString::from));
            words.push(compile(&source, &flags)?.into());
            words.push(class(&expect.category).into());
            words.extend(argument);
        }
        "py" => {
            // The distribution's own: `python3` may be another one, or a script that looks for one.
            words.extend(["/usr/bin/python3".into(), source.into()]);
            words.extend(argument);
        }
        "mpich" => {
            flags.extend(define);
            words.extend(["mpirun.mpich", "-n", RANKS].map(OsString::from));
            words.push(compile_with(Some("mpicc.mpich"), &source, &flags)?.into());
        }
        "openmpi" | "openmpi-yield" => {
            flags.extend(define);
            let gives_way = if variant == "openmpi" { "0" } else { "1" };
            words.extend(["mpirun.openmpi", "--oversubscribe"].map(OsString::from));
            words.extend(
                ["--mca", "mpi_yield_when_idle", gives_way, "-n", RANKS].map(OsString::from),
            );
            words.push(compile_with(Some("mpicc.openmpi"), &source, &flags)?.into());
        }
        _ => {
            flags.extend(define);
            words.push(compile(&source, &flags)?.into());
        }
    }
    Ok(Launch { words })
}

/// Without the options that make it write names of compiled methods, or keep frame pointers: as users start it.
const JAVA: [&str; 2] = ["java", "-cp"];

/// The main class of a category: `java-monitor` is `JavaMonitor`.
fn class(category: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    category.split('-').map(capital).collect()
}
