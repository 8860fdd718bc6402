//! Other recordings of one program, by other inputs or numbers of threads.

use convoy_model::Model;
use convoy_profile::Profile;
use convoy_replay::compose::{compare, Sets};
use convoy_replay::sets::RunKeys;
use convoy_replay::study::Study;
use convoy_replay::tables::Analyzed;
use convoy_replay::ulcp::StaticRules;
use convoy_replayer::calibrate;

use super::sources::Touched;
use super::{machine_of, most_contended, names, switches, without_trace};
use crate::message::Message;

/// Characters of the arguments that are shown.
const MOST_INPUT: usize = 40;

/// Analyzes one. The first of `touched` that knows its program says what critical sections touch.
pub fn analyzed(profile: &Profile, touched: [&Touched; 2]) -> Result<Analyzed, Message> {
    let recording = most_contended(profile)?;
    let process = &profile.processes[recording.process as usize];
    let model = Model::build(without_trace(profile));
    let names = names::names(&recording, process, &model);
    let (machine, _) = machine_of(profile);
    let empty = calibrate::empty_from_text(&profile.meta.costs);
    let known = switches(profile, &recording);
    let study = Study::new(&recording, &names, &machine, known, empty);
    let keys = RunKeys::of(process);
    let sets = touched.into_iter().find_map(|of| of.sets(process).ok());
    let sets = sets.as_ref().map(|sets| Sets {
        sets,
        keys: &keys,
        oracle: &StaticRules,
    });
    let mut of = compare(&study, &machine, sets.as_ref());
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
