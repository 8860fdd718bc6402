//! What `convoy` exits with.

use std::ffi::OsString;
use std::process::ExitCode;

use convoy_capture::{Error, ErrorKind};
use convoy_profile::Exit;

/// Every status that `convoy` can end with. The numbers of the failures are those of env, nohup and
/// timeout, so that scripts that know them need nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// 0: report, diff, export, doctor or recover did what was asked.
    Success,
    /// 1: diff found a limit that does not hold.
    BeyondLimit,
    /// 2: report, top, live, serve, diff, doctor or recover could not, or diff cannot judge a
    /// limit.
    Failure,
    /// What the program exited with; 128 + n if signal n ended it.
    Program(u8),
    /// 125: convoy itself failed; the program did not start, or its profile or report was lost.
    OwnFailure,
    /// 126: the command is there but cannot be executed.
    NotExecutable,
    /// 127: there is no such command.
    NotFound,
}

impl Status {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::BeyondLimit => 1,
            Self::Failure => 2,
            Self::Program(code) => code,
            Self::OwnFailure => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }

    /// As the program ended. A shell would see the same number.
    pub fn of_program(exit: Exit) -> Self {
        match exit {
            Exit::Status(status) => Self::Program(status as u8),
            Exit::Signal(signal) => Self::Program(128u8.wrapping_add(signal as u8)),
            // Recorded as it ran: that worked.
            Exit::Running => Self::Success,
            Exit::Unknown => Self::OwnFailure,
        }
    }

    /// Why a program could not be started.
    pub fn of_launch(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::NotExecutable => Self::NotExecutable,
            _ => Self::OwnFailure,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        status.code().into()
    }
}

/// Arguments that cannot be understood: where a program was to run, 2 could be its own status.
pub fn after_bad_usage(arguments: &[OsString]) -> Status {
    let verb = arguments
        .iter()
        .skip(1)
        .find(|a| !a.to_string_lossy().starts_with('-'));
    match verb.and_then(|v| v.to_str()) {
        Some("report" | "diff" | "export" | "top" | "live" | "serve" | "doctor" | "recover") => {
            Status::Failure
        }
        _ => Status::OwnFailure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_end_is_told_as_a_shell_tells_it() {
        for (exit, code) in [
            (Exit::Status(0), 0),
            (Exit::Status(77), 77),
            (Exit::Status(255), 255),
            (Exit::Signal(11), 139),
            (Exit::Signal(9), 137),
            (Exit::Unknown, 125),
        ] {
            assert_eq!(Status::of_program(exit).code(), code, "{exit:?}");
        }
    }

    #[test]
    fn bad_usage_is_no_status_that_a_program_is_likely_to_have() {
        let after = |words: &[&str]| {
            after_bad_usage(&words.iter().map(OsString::from).collect::<Vec<_>>()).code()
        };
        assert_eq!(after(&["convoy", "--wrong"]), 125);
        assert_eq!(after(&["convoy", "record", "--wrong"]), 125);
        assert_eq!(after(&["convoy", "-q", "report", "--wrong"]), 2);
        assert_eq!(after(&["convoy", "doctor", "--wrong"]), 2);
    }
}
