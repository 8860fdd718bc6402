//! Words for people.

use convoy_model::finding::{Cause, Evidence};
use convoy_model::{Model, SiteFrame, SiteId};

use crate::groups::shown;

pub(crate) fn cause(id: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Cause {
    Cause {
        id,
        text: text.into(),
        fix: fix.into(),
    }
}

pub(crate) fn evidence(key: &'static str, value: f64, text: impl Into<String>) -> Evidence {
    Evidence {
        key,
        value,
        text: text.into(),
    }
}

/// "function() file.c:12", as the other findings say it.
pub(crate) fn place(model: &Model, site: SiteId) -> String {
    shown(model, site).map_or_else(|| "an unknown place".into(), frame)
}

pub(crate) fn frame(frame: &SiteFrame) -> String {
    match (frame.function.as_str(), frame.line) {
        // Two places of one function are told apart by their addresses.
        (function, 0) if !function.is_empty() => format!("{}+{:#x}", frame.label(), frame.offset),
        _ => frame.label(),
    }
}

pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p > 0.0 && p < 1.0 => "under 1 %".into(),
        p if p > 99.0 && p < 100.0 => "over 99 %".into(),
        p => format!("{p:.0} %"),
    }
}

/// Lines of one file in a row: "items.c:12, 14, 19".
pub(crate) fn line_list(frames: &[&SiteFrame]) -> String {
    let mut text = String::new();
    let mut file_before = "";
    for frame in frames {
        let file = frame.file.rsplit('/').next().unwrap_or_default();
        let joint = if text.is_empty() { "" } else { ", " };
        if frame.line == 0 {
            text += &format!("{joint}{}", self::frame(frame));
        } else if file == file_before {
            text += &format!("{joint}{}", frame.line);
        } else {
            text += &format!("{joint}{file}:{}", frame.line);
            file_before = file;
        }
    }
    text
}
