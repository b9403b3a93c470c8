//! The committed events, and the file that relays deliver to.

use std::cell::RefCell;
use std::path::PathBuf;

use postrider_testkit::verify::{Sighting, Verdict, verify};
use tempfile::TempDir;

use crate::shop::delivered_to;

pub(crate) struct Books {
    _folder: TempDir,
    pub(crate) output: PathBuf,
    committed: RefCell<Vec<Sighting>>,
}

impl Books {
    pub(crate) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("events.jsonl");
        Self { _folder: folder, output, committed: RefCell::default() }
    }

    pub(crate) fn commit(&self, events: Vec<Sighting>) {
        self.committed.borrow_mut().extend(events);
    }

    pub(crate) fn verdict(&self) -> Verdict {
        verify(&self.committed.borrow(), &delivered_to(&self.output))
    }
}
