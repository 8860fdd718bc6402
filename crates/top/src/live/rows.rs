//! The visible rows of the resource tree.

use std::collections::BTreeSet;

use convoy_live::{Figure, Focus, Resource};

use crate::filter::Filter;

/// Names of a row and those above it.
pub type Path = Vec<String>;

/// Rows below one branch that are shown; a search finds the others.
const MOST_CHILDREN: usize = 2_000;

/// A row of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeRow {
    /// From the root.
    pub path: Path,
    /// Its number.
    pub figure: Option<Figure>,
    /// What can be measured of it.
    pub focus: Option<Focus>,
    /// It has ended.
    pub has_ended: bool,
    /// Whether there is something below it, and whether that is shown.
    pub is_open: Option<bool>,
}

impl TreeRow {
    /// Its own name.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// How many are above it.
    pub fn depth(&self) -> usize {
        self.path.len().saturating_sub(1)
    }
}

/// The rows to show. With a filter, all that answer to it, and the branches that lead there.
pub fn visible(tree: &[Resource], open: &BTreeSet<Path>, filter: &Filter) -> Vec<TreeRow> {
    let mut rows = Vec::new();
    let mut path = Vec::new();
    for resource in tree {
        add(resource, open, filter, &mut path, &mut rows);
    }
    rows
}

/// Whether anything in it was added.
fn add(
    resource: &Resource,
    open: &BTreeSet<Path>,
    filter: &Filter,
    path: &mut Path,
    rows: &mut Vec<TreeRow>,
) -> bool {
    path.push(resource.name.clone());
    let searches = !filter.text().is_empty();
    let is_open = searches || open.contains(path);
    let at = rows.len();
    rows.push(TreeRow {
        path: path.clone(),
        figure: resource.figure,
        focus: resource.focus.clone(),
        has_ended: resource.has_ended,
        is_open: (!resource.children.is_empty()).then_some(is_open),
    });
    let mut is_wanted = !searches || filter.hits(&resource.name);
    if is_open {
        for child in &resource.children {
            if rows.len() - at > MOST_CHILDREN {
                break;
            }
            is_wanted |= add(child, open, filter, path, rows);
        }
    }
    if !is_wanted {
        rows.truncate(at);
    }
    path.pop();
    is_wanted
}
