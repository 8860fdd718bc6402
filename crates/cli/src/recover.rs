//! `convoy recover`: a profile from what a killed convoy left in memory.

use crate::args::Recover;
use crate::exit::Status;
use crate::message::Message;

/// Writes the profile, then removes the session unless it is to be kept.
pub fn recover(recover: &Recover) -> Status {
    match try_recover(recover) {
        Ok(()) => Status::Success,
        Err(message) => {
            message.print();
            Status::Failure
        }
    }
}

fn try_recover(recover: &Recover) -> Result<(), Message> {
    let trouble = |e: convoy_capture::Error| Message::from(e.trouble());
    let mut profile = convoy_capture::recover(&recover.directory).map_err(trouble)?;
    crate::record::name(&mut profile);
    convoy_capture::write_profile(&recover.output, &profile).map_err(trouble)?;
    if !recover.keep {
        convoy_capture::discard(&recover.directory).map_err(trouble)?;
    }
    if !recover.quiet {
        crate::record::say_written(&recover.output);
    }
    Ok(())
}
