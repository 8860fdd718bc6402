//! How a code location reads in a line.

use crate::{path, SiteFrame};

impl SiteFrame {
    /// `cache_get() items.c:41`, or as much of it as is known: `cache_get() in libfoo.so`,
    /// `libfoo.so+0x1f40`.
    pub fn label(&self) -> String {
        if self.function.is_empty() {
            return match self.module.as_str() {
                "" => format!("code at 0x{:x}", self.offset),
                module => format!("{module}+0x{:x}", self.offset),
            };
        }
        let function = self.function_label();
        let file = self.file.rsplit('/').next().unwrap_or_default();
        match (file, self.line, self.module.as_str()) {
            ("", _, "") => function,
            ("", _, module) => format!("{function} in {module}"),
            (file, 0, _) => format!("{function} {file}"),
            (file, line, _) => format!("{function} {file}:{line}"),
        }
    }

    /// Code that a virtual machine made, and of which it left no name: its address is all that is known.
    pub fn is_unnamed_generated(&self) -> bool {
        self.function.is_empty() && self.module.is_empty()
    }

    /// `Queue::push()`, without parameters; empty if unknown.
    pub fn function_label(&self) -> String {
        match self.function.as_str() {
            "" => String::new(),
            function => format!("{}()", path::short(function)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::SiteFrame;

    #[test]
    fn a_label_says_what_is_known() {
        let frame = |function: &str, file: &str, line, module: &str| SiteFrame {
            function: function.into(),
            file: file.into(),
            line,
            module: module.into(),
            offset: 0x40,
            ..SiteFrame::default()
        };
        assert_eq!(
            frame("Q<int>::push(int)", "src/q.cc", 7, "a").label(),
            "Q::push() q.cc:7"
        );
        assert_eq!(frame("push", "q.c", 0, "a").label(), "push() q.c");
        assert_eq!(frame("push", "", 0, "liba.so").label(), "push() in liba.so");
        assert_eq!(frame("push", "", 0, "").label(), "push()");
        assert_eq!(frame("", "", 0, "liba.so").label(), "liba.so+0x40");
        assert_eq!(frame("", "", 0, "").label(), "code at 0x40");
    }
}
