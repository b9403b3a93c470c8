//! Files with Protobuf definitions, and what they import.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

use super::super::files::{self, Budget, Unread, folder_of};
use super::super::limits::IMPORTS_MAX;

/// A file, with the text of everything that a registry must know.
#[derive(Debug)]
pub(in super::super) struct ProtobufFile {
    pub(in super::super) pool: DescriptorPool,
    pub(in super::super) file: FileDescriptor,
    /// The texts of all files that were read, by their name in imports.
    texts: BTreeMap<String, String>,
}

impl ProtobufFile {
    /// Reads a file. Its imports are relative to its folder, except those of `google/protobuf`.
    ///
    /// # Errors
    /// What is wrong, as one sentence.
    pub(in super::super) fn read(path: &Path, budget: &Budget) -> Result<Self, String> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("its name is not UTF-8")?;
        let folder = Folder { path: folder_of(path), budget: budget.clone(), texts: Arc::default() };
        let texts = folder.texts.clone();
        let mut resolver = ChainFileResolver::new();
        resolver.add(folder);
        resolver.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(resolver);
        compiler.include_imports(true);
        compiler.open_file(name).map_err(|error| one_line(&error))?;
        let pool = compiler.descriptor_pool();
        let file = pool.get_file_by_name(name).ok_or("its descriptor is missing")?;
        let texts = std::mem::take(&mut *texts.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Self { pool, file, texts })
    }

    /// The text of a file that was read.
    pub(in super::super) fn text(&self, name: &str) -> Result<&str, String> {
        self.texts.get(name).map(String::as_str).ok_or_else(|| format!("the text of {name} is missing"))
    }

    /// A number for what the files define, whatever their spaces and comments.
    pub(in super::super) fn content(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for file in self.pool.files() {
            let mut of = file.file_descriptor_proto().clone();
            // Other files are found by their name.
            of.name = of.name.filter(|_| file != self.file);
            of.source_code_info = None;
            format!("{of:?}").hash(&mut hasher);
        }
        hasher.finish()
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
        let listed = || match names.len() {
            0 => "the file has none".to_owned(),
            1..=SHOWN_MAX => format!("the file has {}", names.join(", ")),
            count => format!("the file has {count}, such as {}", names[..SHOWN_MAX].join(", ")),
        };
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

/// Messages that an error lists.
const SHOWN_MAX: usize = 10;

/// Errors of the parser may have several lines. With the place, if there is one.
fn one_line(error: &protox::Error) -> String {
    let (said, placed) = (error.to_string(), format!("{error:?}"));
    let mut line = if placed.ends_with(&said) { placed } else { said };
    // protox 0.10 has one text for two errors.
    if line.ends_with("invalid group name") {
        line.push_str(", or an import with `..`, `.`, a backslash or an absolute path");
    }
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

/// The files of a folder, within the limits of their size and number.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    budget: Budget,
    texts: Arc<Mutex<BTreeMap<String, String>>>,
}

impl FileResolver for Folder {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() > IMPORTS_MAX {
            return Err(protox::Error::new(format!("it imports more than {IMPORTS_MAX} files")));
        }
        let text =
            files::read_in(&self.path, Path::new(name), &self.budget).map_err(|unread| match unread {
                Unread::Missing => protox::Error::file_not_found(name),
                Unread::Refused(why) => protox::Error::new(format!("{name}: {why}")),
            })?;
        let file = File::from_source(name, &text)?;
        texts.insert(name.to_owned(), text);
        Ok(file)
    }
}
