//! Frames and their names. Names repeat, so a chunk begins with its distinct texts.

use super::texts::{Dictionary, Texts};
use super::{codes, lengths, option, options, zip_columns, Row};
use crate::bytes::{In, Malformed, Out};
use crate::{Frame, FunctionStart, Location, Symbol};

const EXACT: u8 = 1;
const NO_RULE: u8 = 2;

impl Row for Frame {
    const TAG: [u8; 4] = *b"FRAM";
    const NAME: &'static str = "frames";

    fn weight(&self) -> usize {
        let texts = |l: &Location| 8 + l.function.len() + l.file.as_ref().map_or(0, String::len);
        match &self.symbol {
            Symbol::Known(locations) => 32 + locations.iter().map(texts).sum::<usize>(),
            Symbol::Unknown(_) => 32,
        }
    }

    fn pack(rows: &[Self], out: &mut Out) {
        let locations = || rows.iter().flat_map(|frame| known(&frame.symbol));
        let mut texts = Texts::default();
        let functions: Vec<u64> = locations().map(|l| texts.id(&l.function)).collect();
        let files: Vec<u64> = locations()
            .map(|l| l.file.as_ref().map_or(0, |file| texts.id(file) + 1))
            .collect();
        texts.pack(out);
        out.deltas(rows.iter().map(|frame| frame.pc));
        out.values(rows.iter().map(|frame| option(frame.module)));
        out.deltas(rows.iter().map(|frame| frame.offset));
        out.values(
            rows.iter()
                .map(|frame| u8::from(frame.exact) * EXACT + u8::from(frame.no_rule) * NO_RULE),
        );
        out.values(rows.iter().map(|frame| match &frame.symbol {
            Symbol::Known(_) => 0,
            Symbol::Unknown(reason) => codes::reason_code(*reason) + 1,
        }));
        out.values(rows.iter().map(|frame| known(&frame.symbol).len() as u64));
        out.values(functions);
        out.values(files);
        out.values(locations().map(|location| option(location.line)));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let mut texts = Dictionary::unpack(input)?;
        let pc = input.deltas(rows)?;
        let module = options(input.values(rows)?)?;
        let offset = input.deltas(rows)?;
        let flags: Vec<u8> = input.values(rows)?;
        let unknown: Vec<u8> = input.values(rows)?;
        let (depths, total) = lengths(rows, input)?;
        let mut locations = unpack_locations(total, &mut texts, input)?.into_iter();
        let mut symbols = Vec::with_capacity(rows);
        for (unknown, depth) in unknown.into_iter().zip(depths) {
            let names: Vec<_> = locations.by_ref().take(depth as usize).collect();
            symbols.push(match unknown.checked_sub(1) {
                None => Symbol::Known(names),
                Some(code) => Symbol::Unknown(codes::reason(code)?),
            });
        }
        Ok(zip_columns!(rows, |pc, module, offset, flags, symbols| {
            Self {
                pc,
                module,
                offset,
                exact: flags & EXACT != 0,
                no_rule: flags & NO_RULE != 0,
                symbol: symbols,
            }
        }))
    }
}

impl Row for FunctionStart {
    const TAG: [u8; 4] = *b"FUNC";
    const NAME: &'static str = "functions without a name";

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| u64::from(row.frame)));
        out.deltas(rows.iter().map(|row| row.address));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let frame = input.deltas(rows)?;
        let address = input.deltas(rows)?;
        Ok(zip_columns!(rows, Self { frame, address }))
    }
}

fn known(symbol: &Symbol) -> &[Location] {
    match symbol {
        Symbol::Known(locations) => locations,
        Symbol::Unknown(_) => &[],
    }
}

fn unpack_locations(
    n: usize,
    texts: &mut Dictionary,
    input: &mut In<'_>,
) -> Result<Vec<Location>, Malformed> {
    let functions: Vec<u32> = input.values(n)?;
    let files = options(input.values(n)?)?;
    let lines = options(input.values(n)?)?;
    let columns = functions.into_iter().zip(files).zip(lines);
    let location = |((function, file), line): ((u32, Option<u32>), _)| {
        Ok(Location {
            function: texts.text(function)?,
            file: file.map(|id| texts.text(id)).transpose()?,
            line,
        })
    };
    columns.map(location).collect()
}
