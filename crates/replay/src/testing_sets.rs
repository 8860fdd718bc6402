//! Hand-written read and write sets for unit tests.

use crate::sets::{Access, SectionSets, SetSample, Update, WordInfo, NO_PLACE};

/// Sets of sampled sections, one a line: words read `r0`, written `w0`, both `b0`, added to `a0`; bits
/// set `m0:MASK`, cleared `c0:MASK`; values stored `s0:VALUE`, rewritten `x0`; `...` = not complete.
pub(crate) fn sets(text: &str) -> SectionSets {
    let mut sets = SectionSets::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut sample = SetSample {
            weight: 1,
            complete: true,
            ..SetSample::default()
        };
        for word in line.split_whitespace().filter(|word| *word != "-") {
            match word {
                "..." => sample.complete = false,
                access => sample.accesses.push(self::access(access)),
            }
        }
        sample.accesses.sort_unstable_by_key(|access| access.word);
        sets.samples.push(sample);
    }
    let words = sets
        .samples
        .iter()
        .flat_map(|s| s.accesses.iter().map(|a| a.word + 1));
    let words = words.max().unwrap_or(0);
    let name = |word| WordInfo {
        name: Some(format!("data+{:#x}", word * 8)),
    };
    sets.words = (0..words).map(name).collect();
    sets
}

fn access(text: &str) -> Access {
    let (kind, rest) = text.split_at(1);
    let (word, value) = rest.split_once(':').unwrap_or((rest, "0"));
    let value: u64 = value.parse().expect("a number");
    let (read, written, update) = match kind {
        "r" => (true, false, Update::Unknown),
        "w" => (false, true, Update::Unknown),
        "b" => (true, true, Update::Unknown),
        "a" => (true, true, Update::Add),
        "m" => (true, true, Update::SetBits(value)),
        "c" => (true, true, Update::ClearBits(value)),
        "s" => {
            let mask = u64::MAX;
            (false, true, Update::Store { value, mask })
        }
        "x" => (false, true, Update::Rewrite),
        other => panic!("no access: {other}"),
    };
    Access {
        word: word.parse().expect("a word"),
        read,
        written,
        update,
        read_at: NO_PLACE,
        written_at: NO_PLACE,
    }
}
