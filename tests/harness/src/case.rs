//! A case: a directory of its own, kept when it fails, and a name in the list of results.

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

use crate::needs::Missing;
use crate::{target, turn, Result};

/// What a case may use.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// The case's directory: empty when the case begins.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// A named test. `missing` says what the machine lacks for it; then it is shown as ignored, with
/// that reason.
pub fn trial(
    name: impl Into<String>,
    missing: Option<Missing>,
    body: impl FnOnce(&Scratch) -> Result + Send + 'static,
) -> Trial {
    named(name.into(), missing, |name| in_scratch(name, body))
}

/// A test of what was measured. Other programs, or the host of a virtual machine, may spoil a
/// measurement: a failure counts when it is repeated with no other case beside it. The first one
/// is shown, and kept, all the same. Not for what has to hold each time: the program's output and
/// status, and that nothing is left in it.
pub fn measured(
    name: impl Into<String>,
    missing: Option<Missing>,
    body: impl Fn(&Scratch) -> Result + Send + 'static,
) -> Trial {
    named(name.into(), missing, move |name| {
        in_scratch(name, &body).or_else(|first| {
            let message = first.message().unwrap_or_default();
            eprintln!("SECOND TRY of {name}, alone. The first one: {message}");
            turn::by_itself(|| in_scratch(name, &body))
        })
    })
}

fn named(
    name: String,
    missing: Option<Missing>,
    body: impl FnOnce(&str) -> std::result::Result<(), Failed> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name.clone(), move || match missing {
        Some(Missing(reason)) => Ok(Completion::ignored_with(reason)),
        None => body(&name).map(|()| Completion::Completed),
    })
}

fn in_scratch(
    name: &str,
    body: impl FnOnce(&Scratch) -> Result,
) -> std::result::Result<(), Failed> {
    let base = target().join("fixtures").join("runs");
    let make = || {
        std::fs::create_dir_all(&base)?;
        tempfile::Builder::new()
            .prefix(&format!("{}-", name.replace('/', "-")))
            .tempdir_in(&base)
    };
    let kept = make().map_err(|e| format!("{}: {e}", base.display()))?;
    let scratch = Scratch {
        dir: kept.path().to_path_buf(),
    };
    body(&scratch).map_err(|message| {
        let dir = kept.keep();
        Failed::from(format!(
            "{message}\n\nkept: {}\nagain: cargo test -p convoy-harness -- --exact {name}",
            dir.display()
        ))
    })
}

/// Runs the cases, two at a time unless told otherwise.
pub fn run(trials: Vec<Trial>) -> Conclusion {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(2);
    libtest_mimic::run(&arguments, trials)
}
