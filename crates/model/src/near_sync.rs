//! Code right beside the places where threads synchronize: what a lock guards, mostly.

use std::collections::BTreeSet;

use crate::{FunctionKey, Site};

/// Code so near, bytes, is what the lock guards, or waits for the lock's word as well: a processor has that many instructions at
/// work at once.
const NEAR: u64 = 128;

/// Where functions call those that synchronize, or have them inlined, as samples found it.
#[derive(Debug, Default)]
pub struct BesideSync<'a> {
    at: BTreeSet<(FunctionKey<'a>, u64)>,
}

impl<'a> BesideSync<'a> {
    /// Of the call stacks of all samples.
    pub fn of(sites: impl Iterator<Item = &'a Site>) -> Self {
        let sites = sites.filter(|site| is_sync(site));
        Self {
            at: sites.filter_map(place).collect(),
        }
    }

    /// Whether the code is right beside such a place, in the same function, and does not synchronize itself.
    pub fn has(&self, site: &'a Site) -> bool {
        let Some((function, offset)) = place(site).filter(|_| !is_sync(site)) else {
            return false;
        };
        let around =
            (function, offset.saturating_sub(NEAR))..=(function, offset.saturating_add(NEAR));
        self.at.range(around).next().is_some()
    }
}

fn is_sync(site: &Site) -> bool {
    site.sync.is_some() || site.fast_path
}

fn place(site: &Site) -> Option<(FunctionKey<'_>, u64)> {
    site.shown_frame().map(|frame| (frame.key(), frame.offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SiteFrame, SyncCode};

    fn site(function: &str, offset: u64, sync: Option<SyncCode>) -> Site {
        Site {
            frames: vec![SiteFrame {
                module: "app".into(),
                function: function.into(),
                offset,
                ..SiteFrame::default()
            }],
            sync,
            ..Site::default()
        }
    }

    #[test]
    fn what_is_near_in_the_same_function_is_beside_the_lock() {
        let all = [
            site("count", 0x1000, Some(SyncCode::Lock)),
            site("count", 0x1080, None),
            site("count", 0xf80, None),
            site("count", 0x1081, None),
            site("other", 0x1000, None),
        ];
        let beside = BesideSync::of(all.iter());
        let found: Vec<bool> = all.iter().map(|site| beside.has(site)).collect();
        assert_eq!(found, [false, true, true, false, false]);
    }
}
