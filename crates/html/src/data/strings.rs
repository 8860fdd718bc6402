//! Texts that repeat: each once, known by number.

use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Strings {
    list: Vec<String>,
    index: HashMap<String, u32>,
}

impl Strings {
    /// The number of a text.
    pub(crate) fn id(&mut self, text: String) -> u32 {
        if let Some(&id) = self.index.get(&text) {
            return id;
        }
        let id = self.list.len() as u32;
        self.list.push(text.clone());
        self.index.insert(text, id);
        id
    }

    pub(crate) fn into_inner(self) -> Vec<String> {
        self.list
    }
}
