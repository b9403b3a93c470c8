//! The context of a run, which every command receives.

use std::path::{Path, PathBuf};

use crate::args::Global;
use crate::config::layer::{ConfigFile, Sources};
use crate::config::schema::Schema;
use crate::config::{Effective, Environment, Problem, Settings};
use crate::failure::Failure;
use crate::output::Output;

/// The default config file.
pub const CONFIG_FILE: &str = "postrider.toml";
const CONFIG_VARIABLE: &str = "POSTRIDER_CONFIG";

/// Output, environment and configuration of one run.
pub struct Context {
    global: Global,
    /// Where to print.
    pub output: Output,
    environment: Environment,
}

impl Context {
    /// Creates the context without reading anything.
    pub fn new(global: Global, output: Output, environment: Environment) -> Self {
        Self { global, output, environment }
    }

    /// The path of the config file, and whether the user named it; then it must exist.
    pub fn config_path(&self) -> (PathBuf, bool) {
        let named =
            self.global.config.clone().or_else(|| self.environment.get(CONFIG_VARIABLE).map(PathBuf::from));
        let is_named = named.is_some();
        (named.unwrap_or_else(|| PathBuf::from(CONFIG_FILE)), is_named)
    }

    /// The configuration, ready to use.
    ///
    /// # Errors
    /// All problems of the configuration.
    pub fn settings(&self) -> Result<Settings, Failure> {
        Ok(self.settings_or_problems()?)
    }

    /// As `settings`, with the problems as values.
    pub(crate) fn settings_or_problems(&self) -> Result<Settings, Vec<Problem>> {
        Settings::new(&self.effective_or_problems()?, &self.environment)
    }

    /// As `settings_or_problems`, with every value as it was given.
    pub(crate) fn configuration(&self) -> Result<(Effective, Settings), Vec<Problem>> {
        let effective = self.effective_or_problems()?;
        let settings = Settings::new(&effective, &self.environment)?;
        Ok((effective, settings))
    }

    /// Every value and its origin, without resolving secrets.
    ///
    /// # Errors
    /// All problems with keys and values.
    pub fn effective(&self) -> Result<Effective, Failure> {
        Ok(self.effective_or_problems()?)
    }

    fn effective_or_problems(&self) -> Result<Effective, Vec<Problem>> {
        let file = self.config_file().map_err(|problem| vec![problem])?;
        let sources =
            Sources { file: file.as_ref(), environment: &self.environment, flags: &self.global.set };
        let (effective, problems) = Effective::merge(Schema::postrider(), &sources);
        if problems.is_empty() { Ok(effective) } else { Err(problems) }
    }

    fn config_file(&self) -> Result<Option<ConfigFile>, Problem> {
        let (path, is_named) = self.config_path();
        if !is_named && !exists(&path) {
            return Ok(None);
        }
        ConfigFile::read(&path).map(Some)
    }
}

/// Whether a path exists. If this cannot be determined, reading the file returns the reason.
pub(crate) fn exists(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

/// Whether this process can write there: permissions, and not a read-only disk.
#[cfg(unix)]
pub(crate) fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
pub(crate) fn is_writable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.permissions().readonly())
}
