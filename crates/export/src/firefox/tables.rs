//! The tables that all threads of a Firefox profile share: texts, functions, frames, stacks.

use std::collections::HashMap;

use convoy_model::{Model, SiteFrame, SiteId};
use serde::Serialize;

use crate::stacks;
use crate::Files;

/// Columns of `profile.shared`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shared {
    stack_table: StackTable,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    native_symbols: NativeSymbols,
    string_array: Vec<String>,
    sources: Sources,
}

#[derive(Debug, Default, Serialize)]
struct StackTable {
    frame: Vec<usize>,
    prefix: Vec<Option<usize>>,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FrameTable {
    address: Vec<i64>,
    inline_depth: Vec<u32>,
    category: Vec<Option<usize>>,
    subcategory: Vec<Option<usize>>,
    func: Vec<usize>,
    native_symbol: Vec<Option<usize>>,
    #[serde(rename = "innerWindowID")]
    inner_window_id: Vec<Option<u64>>,
    line: Vec<Option<u32>>,
    column: Vec<Option<u32>>,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FuncTable {
    name: Vec<usize>,
    #[serde(rename = "isJS")]
    is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    relevant_for_js: Vec<bool>,
    /// -1 = none.
    resource: Vec<i64>,
    source: Vec<Option<usize>>,
    line_number: Vec<Option<u32>>,
    column_number: Vec<Option<u32>>,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
struct ResourceTable {
    lib: Vec<Option<usize>>,
    name: Vec<usize>,
    host: Vec<Option<usize>>,
    r#type: Vec<u32>,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NativeSymbols {
    lib_index: Vec<usize>,
    address: Vec<u64>,
    name: Vec<usize>,
    function_size: Vec<Option<u64>>,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sources {
    id: Vec<Option<String>>,
    filename: Vec<usize>,
    start_line: Vec<u32>,
    start_column: Vec<u32>,
    #[serde(rename = "sourceMapURL")]
    source_map_url: Vec<Option<usize>>,
    length: usize,
}

/// A mapped file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lib {
    arch: String,
    name: String,
    path: String,
    debug_name: String,
    debug_path: String,
    breakpad_id: String,
    code_id: Option<String>,
}

/// Function, address, inline depth, line, category.
type FrameKey = (usize, i64, u32, Option<u32>, usize);

/// Fills the tables; whatever is there already is used again.
#[derive(Debug)]
pub struct Tables<'a> {
    model: &'a Model,
    files: &'a Files,
    shared: Shared,
    libs: Vec<Lib>,
    texts: HashMap<String, usize>,
    resources: HashMap<String, usize>,
    sources: HashMap<usize, usize>,
    functions: HashMap<(usize, usize), usize>,
    frames: HashMap<FrameKey, usize>,
    stacks: HashMap<(usize, Option<usize>), usize>,
    sites: HashMap<(Option<SiteId>, usize, Option<usize>), usize>,
}

impl<'a> Tables<'a> {
    pub fn new(model: &'a Model, files: &'a Files) -> Self {
        Self {
            model,
            files,
            shared: Shared::default(),
            libs: Vec::new(),
            texts: HashMap::new(),
            resources: HashMap::new(),
            sources: HashMap::new(),
            functions: HashMap::new(),
            frames: HashMap::new(),
            stacks: HashMap::new(),
            sites: HashMap::new(),
        }
    }

    pub fn finish(self) -> (Shared, Vec<Lib>) {
        (self.shared, self.libs)
    }

    /// Index of a text.
    pub fn text(&mut self, text: &str) -> usize {
        if let Some(&ix) = self.texts.get(text) {
            return ix;
        }
        let ix = self.shared.string_array.len();
        self.shared.string_array.push(text.to_owned());
        self.texts.insert(text.to_owned(), ix);
        ix
    }

    /// The stack of a place, root first, every frame of a category, with a remark at its leaf: what is waited
    /// for there.
    pub fn stack(&mut self, site: Option<SiteId>, category: usize, remark: &str) -> usize {
        let remark_ix = (!remark.is_empty()).then(|| self.text(remark));
        let key = (site, category, remark_ix);
        if let Some(&ix) = self.sites.get(&key) {
            return ix;
        }
        let frames = stacks::frames_of(self.model, site);
        let mut prefix = None;
        let mut depth = 0;
        for (ix, frame) in frames.iter().enumerate().rev() {
            // Inlined functions are deeper than the function that they are in.
            depth = if frame.inlined { depth + 1 } else { 0 };
            let frame = self.frame(frame, frames.get(ix..).unwrap_or_default(), depth, category);
            prefix = Some(self.node(frame, prefix));
        }
        if prefix.is_none() {
            let unknown = self.label("[call stack not known]", category);
            prefix = Some(self.node(unknown, None));
        }
        if !remark.is_empty() {
            let frame = self.label(remark, category);
            prefix = Some(self.node(frame, prefix));
        }
        let ix = prefix.unwrap_or_default();
        self.sites.insert(key, ix);
        ix
    }

    fn node(&mut self, frame: usize, prefix: Option<usize>) -> usize {
        let table = &mut self.shared.stack_table;
        *self.stacks.entry((frame, prefix)).or_insert_with(|| {
            table.frame.push(frame);
            table.prefix.push(prefix);
            table.length += 1;
            table.length - 1
        })
    }

    /// `rest`: this frame and those that it is inlined into.
    fn frame(&mut self, f: &SiteFrame, rest: &[SiteFrame], depth: u32, category: usize) -> usize {
        let resource = self.resource(&f.module);
        let source = self.source(&f.file);
        let name = self.text(&stacks::function(f));
        let func = self.func(name, resource, source);
        // Inlined functions have the address of the function that they are in.
        let outer = rest.iter().find(|f| !f.inlined).unwrap_or(f);
        let address = match resource {
            Some(_) => i64::try_from(outer.offset).unwrap_or(-1),
            None => -1,
        };
        let line = (f.line > 0).then_some(f.line);
        self.push_frame(func, address, depth, line, category)
    }

    /// A frame that is a remark.
    fn label(&mut self, text: &str, category: usize) -> usize {
        let name = self.text(text);
        let func = self.func(name, None, None);
        self.push_frame(func, -1, 0, None, category)
    }

    fn push_frame(
        &mut self,
        func: usize,
        address: i64,
        depth: u32,
        line: Option<u32>,
        category: usize,
    ) -> usize {
        let table = &mut self.shared.frame_table;
        let key = (func, address, depth, line, category);
        *self.frames.entry(key).or_insert_with(|| {
            table.address.push(address);
            table.inline_depth.push(depth);
            table.category.push(Some(category));
            table.subcategory.push(Some(0));
            table.func.push(func);
            table.native_symbol.push(None);
            table.inner_window_id.push(None);
            table.line.push(line);
            table.column.push(None);
            table.length += 1;
            table.length - 1
        })
    }

    fn func(&mut self, name: usize, resource: Option<usize>, source: Option<usize>) -> usize {
        let table = &mut self.shared.func_table;
        let of = resource.map_or(usize::MAX, |ix| ix);
        *self.functions.entry((name, of)).or_insert_with(|| {
            table.name.push(name);
            table.is_js.push(false);
            table.relevant_for_js.push(false);
            table.resource.push(resource.map_or(-1, |ix| ix as i64));
            table.source.push(source);
            table.line_number.push(None);
            table.column_number.push(None);
            table.length += 1;
            table.length - 1
        })
    }

    fn source(&mut self, file: &str) -> Option<usize> {
        if file.is_empty() {
            return None;
        }
        let filename = self.text(file);
        let table = &mut self.shared.sources;
        let ix = *self.sources.entry(filename).or_insert_with(|| {
            table.id.push(None);
            table.filename.push(filename);
            table.start_line.push(1);
            table.start_column.push(1);
            table.source_map_url.push(None);
            table.length += 1;
            table.length - 1
        });
        Some(ix)
    }

    fn resource(&mut self, module: &str) -> Option<usize> {
        const LIBRARY: u32 = 1;
        if module.is_empty() {
            return None;
        }
        if let Some(&ix) = self.resources.get(module) {
            return Some(ix);
        }
        let name = self.text(module);
        let file = self.files.get(module);
        let path = file.map_or(module, |f| f.path.as_str());
        let build_id = file.map_or("", |f| f.build_id.as_str());
        self.libs.push(Lib {
            arch: self.model.meta.machine.arch.clone(),
            name: module.to_owned(),
            path: path.to_owned(),
            debug_name: module.to_owned(),
            debug_path: path.to_owned(),
            breakpad_id: breakpad_id(build_id),
            code_id: (!build_id.is_empty()).then(|| build_id.to_owned()),
        });
        let table = &mut self.shared.resource_table;
        table.lib.push(Some(self.libs.len() - 1));
        table.name.push(name);
        table.host.push(None);
        table.r#type.push(LIBRARY);
        table.length += 1;
        let ix = table.length - 1;
        self.resources.insert(module.to_owned(), ix);
        Some(ix)
    }
}

/// The first 16 bytes of a build-id as a little-endian GUID, and an age of 0; empty = unknown.
fn breakpad_id(build_id: &str) -> String {
    let bytes: Vec<&str> = (0..16)
        .filter_map(|i| build_id.get(2 * i..2 * i + 2))
        .collect();
    if bytes.len() < 16 {
        return String::new();
    }
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let guid: String = ORDER.iter().map(|&i| bytes[i]).collect();
    guid.to_uppercase() + "0"
}

#[cfg(test)]
mod tests {
    use super::breakpad_id;

    #[test]
    fn an_id_is_a_guid_of_the_build_id() {
        assert_eq!(
            breakpad_id("3cbaa8c7f3b9834f77cac041e936f60ff078c9fc"),
            "C7A8BA3CB9F34F8377CAC041E936F60F0"
        );
        assert_eq!(breakpad_id("3c"), "");
    }
}
