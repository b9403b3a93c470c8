//! The table of a key.

use std::fmt;

use crate::config::schema::Section;

/// One table: `[relay]`, `[sink.out]`, the third rule of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// Its kind.
    pub section: Section,
    /// Its name, if the kind has one.
    pub name: Option<String>,
    /// For a rule, its number from 0.
    pub rule: Option<usize>,
}

impl Group {
    /// A table that is not a rule.
    pub fn new(section: Section, name: Option<&str>) -> Self {
        Self { section, name: name.map(str::to_owned), rule: None }
    }

    /// A rule of this subscription.
    #[must_use]
    pub fn rule(&self, number: usize) -> Self {
        Self { section: Section::Rule, name: self.name.clone(), rule: Some(number) }
    }

    /// The full name of a key in it: `sink.out.path`, `subscription.orders.rule[0].types`.
    pub fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path())
    }

    fn path(&self) -> String {
        let top = if self.section == Section::Rule { Section::Subscription } else { self.section };
        let name = self.name.as_ref().map(|name| format!(".{name}")).unwrap_or_default();
        let rule = self.rule.map(|number| format!(".rule[{number}]")).unwrap_or_default();
        format!("{}{name}{rule}", top.word())
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.path())
    }
}
