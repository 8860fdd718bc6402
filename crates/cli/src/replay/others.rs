//! Other recordings of one program, by other inputs or numbers of threads.

use convoy_profile::Profile;
use convoy_replay::compose::{compare, Sets};
use convoy_replay::sets::RunKeys;
use convoy_replay::tables::Analyzed;
use convoy_replay::ulcp::StaticRules;

use super::names;
use super::sources::Touched;
use super::traced::Traced;
use crate::message::Message;

/// Characters of the arguments that are shown.
const MOST_INPUT: usize = 40;

/// Analyzes one. The first of `touched` that knows its program says what critical sections touch.
pub fn analyzed(profile: &Profile, touched: [&Touched; 2]) -> Result<Analyzed, Message> {
    let traced = Traced::of(profile)?;
    let process = traced.process(profile);
    let names = names::names(&traced.recording, profile);
    let study = traced.study(&names);
    let keys = RunKeys::of(process);
    let sets = touched.into_iter().find_map(|of| of.sets(process).ok());
    let sets = sets.as_ref().map(|sets| Sets {
        sets,
        keys: &keys,
        oracle: &StaticRules,
    });
    let mut of = compare(&study, &traced.machine, sets.as_ref());
    label(&mut of, profile);
    Ok(of)
}

/// Program and input, from the recorded command.
pub fn label(of: &mut Analyzed, profile: &Profile) {
    let command = &profile.meta.command;
    let program = command.first().map_or("", |path| path.as_str());
    of.program = program.rsplit('/').next().unwrap_or_default().to_owned();
    of.input = command.get(1..).unwrap_or_default().join(" ");
    if of.input.chars().count() > MOST_INPUT {
        of.input = of.input.chars().take(MOST_INPUT - 1).collect();
        of.input.push('…');
    }
}
