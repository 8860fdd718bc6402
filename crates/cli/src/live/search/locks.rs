//! Who holds the locks that others wait for, from the agent's tables.

use std::collections::BTreeMap;

use convoy_model::Model;

/// Waiting time by holder: of a lock at an address, by the function that had acquired it.
#[derive(Debug, Default)]
pub struct Holders {
    sums: BTreeMap<(u64, String), u64>,
}

impl Holders {
    /// Everything since the start.
    pub fn of(model: &Model) -> Self {
        let mut holders = Self::default();
        for pair in &model.pairs {
            let object = model.objects.get(pair.object.0 as usize);
            let acquired = pair.peer_acquired_at.iter();
            let mut functions = acquired.map(|frame| frame.function.as_str());
            let function = functions.find(|name| !name.is_empty()).unwrap_or_default();
            if let Some(object) = object {
                let key = (object.addr, function.to_owned());
                *holders.sums.entry(key).or_default() += pair.wait_ns;
            }
        }
        holders
    }

    /// Of the waits for a lock since an earlier reading, the share during which each function held
    /// it. Those of which the holder is not known have the rest.
    pub fn shares(&self, before: &Self, address: u64) -> Vec<(String, f64)> {
        let sums = self.sums.iter().filter(|((at, _), _)| *at == address);
        let changes: Vec<(&str, u64)> = sums
            .map(|(key, ns)| {
                let earlier = before.sums.get(key).copied().unwrap_or(0);
                (key.1.as_str(), ns.saturating_sub(earlier))
            })
            .collect();
        let all: u64 = changes.iter().map(|(_, ns)| ns).sum();
        let known = changes
            .into_iter()
            .filter(|(name, ns)| !name.is_empty() && *ns > 0);
        let shares = known.map(|(name, ns)| (name.to_owned(), ns as f64 / all.max(1) as f64));
        shares.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_model::{Object, Pair, SiteFrame};

    fn model(put: u64, get: u64, unknown: u64) -> Model {
        let pair = |function: &str, wait_ns| Pair {
            peer_acquired_at: vec![SiteFrame {
                function: function.into(),
                ..SiteFrame::default()
            }],
            wait_ns,
            ..Pair::default()
        };
        Model {
            objects: vec![Object {
                addr: 0x40,
                ..Object::default()
            }],
            pairs: vec![pair("put", put), pair("get", get), pair("", unknown)],
            ..Model::default()
        }
    }

    #[test]
    fn waits_since_an_earlier_reading_are_shared_among_holders() {
        let before = Holders::of(&model(1_000, 0, 0));
        let now = Holders::of(&model(1_600, 200, 200));
        let shares = now.shares(&before, 0x40);
        assert_eq!(shares, [("get".into(), 0.2), ("put".into(), 0.6)]);
        assert!(now.shares(&before, 0x41).is_empty());
        assert!(now.shares(&now, 0x40).is_empty(), "nothing was waited for");
    }
}
