//! Names and call stacks that are written once.

use std::collections::HashMap;

use convoy_model::{Model, SiteFrame, SiteId};

use super::proto::{
    Callstack, DebugAnnotation, Frame, InternedData, InternedString, Mapping, Name,
};
use crate::stacks;

/// What was interned so far; ids begin at 1.
#[derive(Debug, Default)]
pub struct Interned {
    names: HashMap<String, u64>,
    categories: HashMap<String, u64>,
    notes: HashMap<String, u64>,
    texts: HashMap<String, u64>,
    functions: HashMap<String, u64>,
    sources: HashMap<String, u64>,
    modules: HashMap<String, u64>,
    frames: HashMap<(u64, u64, u64, u32), u64>,
    stacks: HashMap<SiteId, Option<u64>>,
    /// What the next packet has to bring along.
    new: InternedData,
}

impl Interned {
    /// What was interned since the last time, if anything.
    pub fn take(&mut self) -> Option<InternedData> {
        let new = std::mem::take(&mut self.new);
        (new != InternedData::default()).then_some(new)
    }

    /// The name of an event.
    pub fn name(&mut self, text: &str) -> u64 {
        name(&mut self.names, text, &mut self.new.event_names)
    }

    /// What kind of event it is.
    pub fn category(&mut self, text: &str) -> Vec<u64> {
        let new = &mut self.new.event_categories;
        vec![name(&mut self.categories, text, new)]
    }

    /// A property that is a text.
    pub fn note(&mut self, key: &str, value: &str) -> DebugAnnotation {
        let new = &mut self.new.debug_annotation_string_values;
        DebugAnnotation {
            name_iid: Some(name(
                &mut self.notes,
                key,
                &mut self.new.debug_annotation_names,
            )),
            string_value_iid: Some(text(&mut self.texts, value, new)),
            double_value: None,
        }
    }

    /// A property that is a number.
    pub fn number(&mut self, key: &str, value: f64) -> DebugAnnotation {
        DebugAnnotation {
            name_iid: Some(name(
                &mut self.notes,
                key,
                &mut self.new.debug_annotation_names,
            )),
            string_value_iid: None,
            double_value: Some(value),
        }
    }

    /// A call stack; `None` = unknown.
    pub fn stack(&mut self, model: &Model, site: Option<SiteId>) -> Option<u64> {
        let site = site?;
        if let Some(&known) = self.stacks.get(&site) {
            return known;
        }
        let frames = stacks::frames(model, site);
        // Root first.
        let frame_ids: Vec<u64> = frames.iter().rev().map(|f| self.frame(f)).collect();
        let iid = (!frame_ids.is_empty()).then_some(self.stacks.len() as u64 + 1);
        if let Some(iid) = iid {
            self.new.callstacks.push(Callstack { iid, frame_ids });
        }
        self.stacks.insert(site, iid);
        iid
    }

    fn frame(&mut self, frame: &SiteFrame) -> u64 {
        let function = text(
            &mut self.functions,
            &stacks::function(frame),
            &mut self.new.function_names,
        );
        let source = match frame.file.as_str() {
            "" => 0,
            file => text(&mut self.sources, file, &mut self.new.source_paths),
        };
        let mapping = self.mapping(&frame.module);
        let key = (function, mapping, frame.offset, frame.line);
        let next = self.frames.len() as u64 + 1;
        let iid = *self.frames.entry(key).or_insert(next);
        if iid == next {
            self.new.frames.push(Frame {
                iid,
                function_name_id: function,
                mapping_id: mapping,
                rel_pc: frame.offset,
                source_path_iid: (source > 0).then_some(source),
                line_number: (frame.line > 0).then_some(frame.line),
            });
        }
        iid
    }

    /// Every frame needs one, also generated code.
    fn mapping(&mut self, module: &str) -> u64 {
        let next = self.modules.len() as u64 + 1;
        let iid = *self.modules.entry(module.to_owned()).or_insert(next);
        if iid == next {
            self.new.mapping_paths.push(InternedString {
                iid,
                str: module.as_bytes().to_vec(),
            });
            self.new.mappings.push(Mapping {
                iid,
                path_string_ids: vec![iid],
            });
        }
        iid
    }
}

fn name(known: &mut HashMap<String, u64>, text: &str, new: &mut Vec<Name>) -> u64 {
    id(known, text, |iid| {
        new.push(Name {
            iid,
            name: text.to_owned(),
        });
    })
}

fn text(known: &mut HashMap<String, u64>, text: &str, new: &mut Vec<InternedString>) -> u64 {
    id(known, text, |iid| {
        new.push(InternedString {
            iid,
            str: text.as_bytes().to_vec(),
        });
    })
}

fn id(known: &mut HashMap<String, u64>, text: &str, add: impl FnOnce(u64)) -> u64 {
    if let Some(&iid) = known.get(text) {
        return iid;
    }
    let iid = known.len() as u64 + 1;
    known.insert(text.to_owned(), iid);
    add(iid);
    iid
}
