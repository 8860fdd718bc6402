//! Fills a pprof profile: texts, files, functions and places are written once.

use std::collections::HashMap;

use convoy_model::SiteFrame;

use super::proto::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use super::Pprof;
use crate::Files;

/// Every file gets a range of addresses of its own, so that an address says which file it is in.
const FILE_BITS: u32 = 40;

/// A profile in the making.
#[derive(Debug)]
pub struct Writer<'a> {
    files: &'a Files,
    profile: Profile,
    texts: HashMap<String, i64>,
    mappings: HashMap<String, u64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<Vec<(u64, u64, i64)>, u64>,
}

impl<'a> Writer<'a> {
    /// In Go's shape. `period_ns`: CPU time between two samples; of waits every one counts.
    pub fn new(kind: Pprof, period_ns: u64, files: &'a Files) -> Self {
        let mut this = Self {
            files,
            profile: Profile::default(),
            texts: HashMap::new(),
            mappings: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
        };
        this.text("");
        let (count, time) = match kind {
            Pprof::Cpu => ("samples", "cpu"),
            Pprof::Mutex | Pprof::Block => ("contentions", "delay"),
        };
        let count = this.value_type(count, "count");
        let time = this.value_type(time, "nanoseconds");
        this.profile.sample_type = vec![count, time];
        let (period_type, period) = match kind {
            Pprof::Cpu => (time, signed(period_ns)),
            Pprof::Mutex | Pprof::Block => (count, 1),
        };
        this.profile.period_type = Some(period_type);
        this.profile.period = period;
        this.profile.default_sample_type = time.r#type;
        this
    }

    /// When it was recorded, and for how long.
    pub fn time(&mut self, started_unix_ns: u64, wall_ns: u64) {
        self.profile.time_nanos = signed(started_unix_ns);
        self.profile.duration_nanos = signed(wall_ns);
    }

    /// A remark for people.
    pub fn comment(&mut self, text: &str) {
        let text = self.text(text);
        self.profile.comment.push(text);
    }

    /// A sample. `frames`: leaf first, inlined functions expanded.
    pub fn sample(&mut self, frames: &[SiteFrame], count: u64, ns: u64, labels: Vec<Label>) {
        let location_id = self.stack(frames);
        self.profile.sample.push(Sample {
            location_id,
            value: vec![signed(count), signed(ns)],
            label: labels,
        });
    }

    /// A property that is a text.
    pub fn label(&mut self, key: &str, value: &str) -> Label {
        Label {
            key: self.text(key),
            str: self.text(value),
            num: 0,
        }
    }

    /// A property that is a number.
    pub fn number(&mut self, key: &str, value: u64) -> Label {
        Label {
            key: self.text(key),
            str: 0,
            num: signed(value),
        }
    }

    /// The finished profile.
    pub fn finish(self) -> Profile {
        self.profile
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType {
            r#type: self.text(name),
            unit: self.text(unit),
        }
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(&ix) = self.texts.get(text) {
            return ix;
        }
        let ix = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), ix);
        ix
    }

    /// One location per address; inlined functions share that of the function that they are in.
    fn stack(&mut self, frames: &[SiteFrame]) -> Vec<u64> {
        let mut ids = Vec::new();
        let mut rest = frames;
        while !rest.is_empty() {
            let inlined = rest.iter().take_while(|f| f.inlined).count();
            let (address, above) = rest.split_at((inlined + 1).min(rest.len()));
            ids.push(self.location(address));
            rest = above;
        }
        ids
    }

    fn location(&mut self, frames: &[SiteFrame]) -> u64 {
        let last = frames.last();
        let mapping_id = last.map_or(0, |f| self.mapping(&f.module));
        let offset = last.map_or(0, |f| f.offset & ((1 << FILE_BITS) - 1));
        let address = (mapping_id << FILE_BITS) + offset;
        let lines: Vec<Line> = frames.iter().map(|f| self.line(f)).collect();
        let key = lines
            .iter()
            .map(|l| (address, l.function_id, l.line))
            .collect();
        let next = self.profile.location.len() as u64 + 1;
        let id = *self.locations.entry(key).or_insert(next);
        if id == next {
            self.profile.location.push(Location {
                id,
                mapping_id,
                address,
                line: lines,
            });
        }
        id
    }

    fn line(&mut self, frame: &SiteFrame) -> Line {
        let name = self.text(&crate::stacks::function(frame));
        let filename = self.text(&frame.file);
        let next = self.profile.function.len() as u64 + 1;
        let function_id = *self.functions.entry((name, filename)).or_insert(next);
        if function_id == next {
            self.profile.function.push(Function {
                id: next,
                name,
                // Another text than the name: pprof then takes names to be demangled, and
                // leaves them as they are.
                system_name: 0,
                filename,
            });
        }
        Line {
            function_id,
            line: i64::from(frame.line),
        }
    }

    /// The number of a file; 0 = in no file.
    pub fn mapping(&mut self, module: &str) -> u64 {
        if module.is_empty() {
            return 0;
        }
        if let Some(&id) = self.mappings.get(module) {
            return id;
        }
        let id = self.profile.mapping.len() as u64 + 1;
        let file = self.files.get(module);
        let (path, build_id) = file.map_or((module, ""), |f| (&f.path, &f.build_id));
        let (filename, build_id) = (self.text(path), self.text(build_id));
        self.profile.mapping.push(Mapping {
            id,
            memory_start: id << FILE_BITS,
            memory_limit: (id + 1) << FILE_BITS,
            filename,
            build_id,
            // All names are here: nobody needs to look for the file.
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        });
        self.mappings.insert(module.to_owned(), id);
        id
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
