//! A case: a directory of its own, kept when it fails, and a name in the list of results.

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

use crate::needs::Missing;
use crate::{target, Result};

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
    let name = name.into();
    Trial::ignorable_test(name.clone(), move || match missing {
        Some(Missing(reason)) => Ok(Completion::ignored_with(reason)),
        None => in_scratch(&name, body).map(|()| Completion::Completed),
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
