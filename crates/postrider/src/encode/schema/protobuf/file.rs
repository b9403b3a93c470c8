//! Files with Protobuf definitions, and what they import.

use std::path::Path;

use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver};

use super::super::limits::{FILE_BYTES_MAX, IMPORTS_MAX};

/// A file, with the text of everything that a registry must know.
#[derive(Debug)]
pub(in super::super) struct ProtobufFile {
    pub(in super::super) pool: DescriptorPool,
    pub(in super::super) file: FileDescriptor,
}

impl ProtobufFile {
    /// Reads a file. Its imports are relative to its folder, except those of `google/protobuf`.
    ///
    /// # Errors
    /// What is wrong, as one sentence.
    pub(in super::super) fn read(path: &Path) -> Result<Self, String> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("its name is not UTF-8")?;
        let mut resolver = ChainFileResolver::new();
        resolver.add(Limited { inner: IncludeFileResolver::new(folder.into()), folder: folder.into() });
        resolver.add(GoogleFileResolver::new());
        Self::compile(resolver, name)
    }

    fn compile(resolver: ChainFileResolver, name: &str) -> Result<Self, String> {
        let mut compiler = protox::Compiler::with_file_resolver(resolver);
        compiler.include_imports(true);
        compiler.open_file(name).map_err(|error| one_line(&error))?;
        let pool = compiler.descriptor_pool();
        if pool.files().len() > IMPORTS_MAX {
            return Err(format!("it imports more than {IMPORTS_MAX} files"));
        }
        let file = pool.get_file_by_name(name).ok_or("its descriptor is missing")?;
        Ok(Self { pool, file })
    }

    /// The message of this name; otherwise that with the name of the event type, or the only one of the file.
    ///
    /// # Errors
    /// Which messages there are.
    pub(in super::super) fn message(
        &self,
        name: Option<&str>,
        event_type: &str,
    ) -> Result<MessageDescriptor, String> {
        let names: Vec<String> = self.file.messages().map(|message| message.full_name().to_owned()).collect();
        let listed =
            || format!("the file has {}", if names.is_empty() { "none".into() } else { names.join(", ") });
        match name {
            Some(name) => {
                let found = self.pool.get_message_by_name(name);
                // The schema that the registry knows is that of the file.
                let found = found.filter(|message| message.parent_file() == self.file);
                found.ok_or_else(|| format!("there is no message {name:?}; {}", listed()))
            }
            None => {
                match self.file.messages().find(|message| names.len() == 1 || message.name() == event_type) {
                    Some(found) => Ok(found),
                    None => Err(format!("the binding does not name its message; {}", listed())),
                }
            }
        }
    }
}

/// Errors of the parser may have several lines.
fn one_line(error: &protox::Error) -> String {
    let mut line = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        source = cause.source();
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Files of a folder, up to the limit of their size.
struct Limited {
    inner: IncludeFileResolver,
    folder: std::path::PathBuf,
}

impl FileResolver for Limited {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        self.inner.resolve_path(path)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let size = std::fs::metadata(self.folder.join(name)).map(|metadata| metadata.len());
        if size.is_ok_and(|size| size > FILE_BYTES_MAX) {
            return Err(protox::Error::new(format!("{name} has more than {FILE_BYTES_MAX} bytes")));
        }
        self.inner.open_file(name)
    }
}
