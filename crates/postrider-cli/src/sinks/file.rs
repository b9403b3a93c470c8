//! `type = "file"`

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use postrider::sink::Sink;
use postrider::{BoxFuture, Result};
use postrider_sinks::file::{File, FileConfig};

use super::{SinkType, SinkUser, Target};
use crate::config::kind::Kind::{Path as PathKind, Size};
use crate::config::schema::{KeySpec, sink_key as key};
use crate::context::is_writable;
use crate::doctor::{Check, Subject};

pub(super) const TYPE: SinkType = SinkType {
    name: "file",
    summary: "lines in a file",
    keys: KEYS,
    read: Ok(|table| {
        let mut config = FileConfig::new(table.required("path", table.path("path")?)?);
        config.rotate_bytes = table.size("rotate_size")?;
        Ok(Arc::new(LogFile(config)))
    }),
};

#[rustfmt::skip]
const KEYS: &[KeySpec] = &[
    key("path", PathKind, r#""events.jsonl""#, "The file to write to. Its folder must exist.").required(),
    key("rotate_size", Size, r#""64MiB""#, "Start a new file before the current one exceeds this size. Default: no limit."),
];

#[derive(Debug, PartialEq)]
struct LogFile(FileConfig);

impl Target for LogFile {
    fn open(&self, _: &SinkUser<'_>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(File::open(&self.0)?))
    }

    fn writes_lines(&self) -> bool {
        true
    }

    fn check<'a>(&'a self, subject: &'a mut Subject<'_>) -> BoxFuture<'a, ()> {
        match refusal(&self.0.path) {
            None => subject.ok(Check::SinkReachable, self.to_string()),
            Some(why) => subject.fail_with(
                Check::SinkReachable,
                format!("{self}: {why}"),
                "create the folder, or grant this user write access to it and to the file",
            ),
        }
        Box::pin(std::future::ready(()))
    }
}

impl fmt::Display for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.0.path.display())
    }
}

/// Why appending to a file would fail, as far as this can be checked without changing it.
fn refusal(path: &Path) -> Option<&'static str> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Some("its folder does not exist");
    }
    if path.is_symlink() {
        return Some("it is a symbolic link, which is not followed; use the path of its target");
    }
    if path.exists() && !path.is_file() {
        return Some("it is not a regular file");
    }
    let locked = |path: &Path| path.exists() && !is_writable(path);
    (locked(path) || !is_writable(folder)).then_some("it is not writable")
}
