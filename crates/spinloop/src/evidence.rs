//! A loop's instructions for people.

use iced_x86::{Formatter, Instruction, IntelFormatter};

/// So many instructions are shown.
const SHOWN: usize = 8;

/// The instructions in order, those that matter most where there are too many.
pub(crate) fn evidence(body: &[(Instruction, bool)]) -> String {
    let mut left = SHOWN;
    let keeps: Vec<bool> = body
        .iter()
        .map(|&(_, matters)| {
            let keep = body.len() <= SHOWN || (matters && left > 0);
            left -= usize::from(keep && left > 0);
            keep
        })
        .collect();
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_hex_suffix("");
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter
        .options_mut()
        .set_space_after_operand_separator(false);
    let mut text = String::new();
    let mut gap = false;
    for ((instr, _), keep) in body.iter().zip(keeps) {
        if !keep {
            gap = true;
            continue;
        }
        if !text.is_empty() {
            text.push_str(if gap { "; ...; " } else { "; " });
        }
        gap = false;
        if instr.is_jcc_short_or_near() || instr.is_jmp_short_or_near() {
            formatter.format_mnemonic(instr, &mut text); // targets mean nothing to people
        } else {
            formatter.format(instr, &mut text);
        }
    }
    text
}
