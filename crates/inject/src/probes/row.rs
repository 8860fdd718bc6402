//! A row of the table, as the probe that counts into it wants it.

use convoy_probes::table::{Row, CALLER, HOLDING, WITHIN};
use convoy_probes::{Also, Probe};

/// What the runtime reads at each call.
pub(super) fn described(probe: &Probe, generation: u16) -> Row {
    let mut row = Row {
        generation,
        ..Row::default()
    };
    if let Some(within) = probe.within {
        row.within = within as u16;
        row.gates |= WITHIN;
    }
    if let Some(caller) = &probe.caller {
        (row.caller_from, row.caller_to) = (caller.start, caller.end);
        row.gates |= CALLER;
    }
    if let Some(holding) = probe.holding {
        row.held_offset = holding.offset;
        row.held_epoch = holding.epoch;
        row.held_slot = holding.slot;
        row.gates |= HOLDING;
    }
    match probe.also {
        Also::Nothing => {}
        Also::Bytes(bytes) => row.bytes = bytes as u8,
        Also::Io(io, group) => (row.io, row.io_group) = (io as u8, group.into()),
    }
    row
}

#[cfg(test)]
mod tests {
    use convoy_probes::{Holding, Io, Measure};

    use super::*;

    #[test]
    fn every_gate_that_is_asked_for_is_there() {
        let mut probe = Probe::new(3, 16..32, Measure::Calls);
        assert_eq!(described(&probe, 7).gates, 0);
        probe.within = Some(9);
        probe.caller = Some(0x100..0x200);
        probe.holding = Some(Holding {
            offset: -64,
            epoch: 5,
            slot: 2,
        });
        probe.also = Also::Io(Io::Write, 4);
        let row = described(&probe, 7);
        assert_eq!(row.gates, WITHIN | CALLER | HOLDING);
        assert_eq!((row.within, row.generation), (9, 7));
        assert_eq!((row.caller_from, row.caller_to), (0x100, 0x200));
        assert_eq!(
            (row.held_offset, row.held_epoch, row.held_slot),
            (-64, 5, 2)
        );
        assert_eq!((row.io, row.io_group, row.bytes), (2, 4, 0));
    }
}
