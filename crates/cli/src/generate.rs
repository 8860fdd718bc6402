//! `convoy generate`: man pages and shell completions, from the arguments themselves.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::{generate_to, Shell};

use crate::args::Cli;
use crate::exit::Status;
use crate::message::Message;

/// `convoy generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// What to write
    #[arg(value_name = "WHAT", value_enum)]
    what: What,

    /// Directory to write to, under the name that man or the shell looks for
    #[arg(short, long, value_name = "DIRECTORY", default_value = ".")]
    output: PathBuf,
}

/// What can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Man pages, one for each subcommand
    Man,
    /// Completions of bash
    Bash,
    /// Completions of fish
    Fish,
    /// Completions of zsh
    Zsh,
}

/// Writes them, and names the files on standard output.
pub fn generate(args: &Generate) -> Status {
    let done = written(args.what, &args.output);
    match done {
        Ok(files) => {
            let mut out = std::io::stdout().lock();
            // Who closes standard output does not want the names.
            let _ = files
                .iter()
                .try_for_each(|file| writeln!(out, "{}", file.display()));
            Status::Success
        }
        Err(error) => {
            Message::new(
                format!("{}: {error}", args.output.display()),
                "nothing more was generated",
                "name a directory that exists and can be written to: -o DIRECTORY",
            )
            .print();
            Status::Failure
        }
    }
}

fn written(what: What, directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut command = visible(Cli::command());
    let shell = match what {
        What::Man => return man_pages(command, directory),
        What::Bash => Shell::Bash,
        What::Fish => Shell::Fish,
        What::Zsh => Shell::Zsh,
    };
    generate_to(shell, &mut command, "convoy", directory).map(|file| vec![file])
}

/// Without the subcommands that convoy starts itself with.
fn visible(mut command: Command) -> Command {
    let subcommands: Vec<Command> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .cloned()
        .collect();
    let mut shown = Command::new("convoy")
        .version(env!("CONVOY_VERSION"))
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommands(subcommands)
        .args(command.get_arguments().cloned().collect::<Vec<_>>());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        shown = shown.after_help(after.clone());
    }
    shown.override_usage(command.render_usage())
}

/// convoy.1, and convoy-VERB.1 for each subcommand.
fn man_pages(mut command: Command, directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    command.build();
    let subcommands: Vec<Command> = command.get_subcommands().cloned().collect();
    let subcommands = subcommands.into_iter().map(|sub| {
        let name = format!("convoy-{}", sub.get_name());
        (sub.display_name(&name), name)
    });
    let pages = std::iter::once((command, "convoy".to_owned())).chain(subcommands);
    pages
        .map(|(page, name)| {
            let file = directory.join(format!("{name}.1"));
            let mut text = Vec::new();
            let man = clap_mangen::Man::new(page).title(name);
            man.render(&mut text)?;
            std::fs::write(&file, text)?;
            Ok(file)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_subcommand_has_a_man_page() {
        let directory = tempfile::tempdir().unwrap();
        let files = written(What::Man, directory.path()).unwrap();
        let command = Cli::command();
        let verbs = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        for verb in verbs {
            let file = directory
                .path()
                .join(format!("convoy-{}.1", verb.get_name()));
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(
                files.contains(&file) && text.contains(".SH OPTIONS"),
                "{text}"
            );
        }
        let main = std::fs::read_to_string(directory.path().join("convoy.1")).unwrap();
        assert!(main.contains("Exit status") && !main.contains(crate::live::LOOP_ARGUMENT));
    }

    #[test]
    fn completions_know_verbs_and_hide_convoy_s_own() {
        let directory = tempfile::tempdir().unwrap();
        for what in [What::Bash, What::Fish, What::Zsh] {
            let files = written(what, directory.path()).unwrap();
            let text = std::fs::read_to_string(&files[0]).unwrap();
            assert!(text.contains("investigate"), "{what:?}");
            assert!(!text.contains(crate::recorder_cost::ARGUMENT), "{what:?}");
        }
        assert!(written(What::Bash, Path::new("/nonexistent/directory")).is_err());
    }
}
