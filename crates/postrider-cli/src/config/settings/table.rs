//! Typed values of one table.

use postrider::Code;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::effective::{Effective, Setting};
use crate::config::environment::Environment;
use crate::config::layer::Group;
use crate::config::origin::Origin;
use crate::config::problem::Problem;
use crate::config::schema::Section;
use crate::config::secret::Secret;
use crate::config::value::{Keep, Value};

/// One table of the merged configuration. Requesting a key that is not in the schema, or that has another kind, is a
/// bug of this program; it is reported as a problem instead of a panic.
pub(crate) struct ConfigTable<'a> {
    effective: &'a Effective,
    environment: &'a Environment,
    group: &'a Group,
    origin: &'a Origin,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $variant:ident -> $type:ty;)+) => {
        $($(#[$doc])*
        pub(crate) fn $name(&self, key: &str) -> Result<Option<$type>, Problem> {
            match self.value(key)? {
                Some(Value::$variant(value)) => Ok(Some(value.clone())),
                None => Ok(None),
                Some(_) => Err(self.schema_bug(key)),
            }
        })+
    };
}

impl<'a> ConfigTable<'a> {
    pub(crate) fn all(effective: &'a Effective, environment: &'a Environment, section: Section) -> Vec<Self> {
        let table = |(group, origin)| Self { effective, environment, group, origin };
        effective.groups(section).map(table).collect()
    }

    /// The rules of this subscription, in their order.
    pub(crate) fn rules(&self) -> Vec<Self> {
        let all = Self::all(self.effective, self.environment, Section::Rule);
        all.into_iter().filter(|rule| rule.group.name == self.group.name).collect()
    }

    pub(crate) fn name(&self) -> String {
        self.group.name.clone().unwrap_or_default()
    }

    getters! {
        text: Text -> String;
        list: List -> Vec<String>;
        map: Map -> BTreeMap<String, String>;
        path: Path -> PathBuf;
        size: Size -> u64;
        start: Start -> postrider::store::Start;
    }

    pub(crate) fn bool(&self, key: &str) -> Result<bool, Problem> {
        match self.value(key)? {
            Some(Value::Bool(truth)) => Ok(*truth),
            _ => Err(self.schema_bug(key)),
        }
    }

    pub(crate) fn duration(&self, key: &str) -> Result<Duration, Problem> {
        match self.value(key)? {
            Some(Value::Duration(duration)) => Ok(*duration),
            _ => Err(self.schema_bug(key)),
        }
    }

    /// A retention time, if it is set.
    pub(crate) fn retention(&self, key: &str) -> Result<Option<Keep>, Problem> {
        match self.value(key)? {
            None => Ok(None),
            Some(Value::Retention(keep)) => Ok(Some(*keep)),
            _ => Err(self.schema_bug(key)),
        }
    }

    /// A number or size, as the integer type of the caller.
    pub(crate) fn count<N: TryFrom<u64>>(&self, key: &str) -> Result<N, Problem> {
        let (Some(Value::Number(number) | Value::Size(number)), setting) =
            (self.value(key)?, self.setting(key)?)
        else {
            return Err(self.schema_bug(key));
        };
        let too_large = || format!("{} is larger than this program supports", self.group.key(key));
        N::try_from(*number).map_err(|_| {
            Problem::new(Code::ConfigValue, too_large()).key(self.group.key(key)).at(&setting.origin)
        })
    }

    /// The value of a choice.
    pub(crate) fn choice<T: Clone>(&self, key: &str, meanings: &[(&str, T)]) -> Result<T, Problem> {
        let word = self.required(key, self.text(key)?)?;
        let meaning = meanings.iter().find(|(known, _)| *known == word).map(|(_, meaning)| meaning.clone());
        self.required(key, meaning)
    }

    /// The value of a key that is required or has a default.
    pub(crate) fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, Problem> {
        value.ok_or_else(|| self.schema_bug(key))
    }

    /// Resolves a secret or URL, if it is set.
    pub(crate) fn secret(&self, key: &str) -> Result<Option<Secret>, Problem> {
        let protected = match self.value(key)? {
            Some(Value::Secret(protected)) => protected,
            None => return Ok(None),
            Some(_) => return Err(self.schema_bug(key)),
        };
        let fetched = protected.resolve(self.environment);
        fetched.map(Some).map_err(|why| self.problem(key, Code::ConfigSecret, &why))
    }

    /// Resolves the URLs of a table, if it is set.
    pub(crate) fn urls(&self, key: &str) -> Result<BTreeMap<String, Secret>, Problem> {
        let sources = match self.value(key)? {
            Some(Value::Secrets(sources)) => sources,
            None => return Ok(BTreeMap::new()),
            Some(_) => return Err(self.schema_bug(key)),
        };
        let resolved = sources.iter().map(|(name, source)| match source.resolve(self.environment) {
            Ok(url) => Ok((name.clone(), url)),
            Err(why) => Err(self.problem(key, Code::ConfigSecret, &format!("{name}: {why}"))),
        });
        resolved.collect()
    }

    /// An optional number.
    pub(crate) fn optional_count<N: TryFrom<u64>>(&self, key: &str) -> Result<Option<N>, Problem> {
        if self.value(key)?.is_some() { self.count(key).map(Some) } else { Ok(None) }
    }

    /// An optional duration.
    pub(crate) fn optional_duration(&self, key: &str) -> Result<Option<Duration>, Problem> {
        if self.value(key)?.is_some() { self.duration(key).map(Some) } else { Ok(None) }
    }

    /// Whether the user set the key to a value other than `false`.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        let says = |setting: &Setting| {
            setting.origin != Origin::Default
                && setting.value.as_ref().is_some_and(|value| *value != Value::Bool(false))
        };
        self.setting(key).is_ok_and(says)
    }

    /// A problem with the value of a key.
    pub(crate) fn problem(&self, key: &str, code: Code, why: &str) -> Problem {
        let origin = self.setting(key).map_or(self.origin, |setting| &setting.origin);
        let key = self.group.key(key);
        Problem::new(code, format!("{key}: {why}")).key(key).at(origin)
    }

    /// A problem with the table as a whole.
    pub(crate) fn table_problem(&self, code: Code, why: &str) -> Problem {
        Problem::new(code, format!("{}: {why}", self.group)).at(self.origin)
    }

    fn value(&self, key: &str) -> Result<Option<&'a Value>, Problem> {
        Ok(self.setting(key)?.value.as_ref())
    }

    fn setting(&self, key: &str) -> Result<&'a Setting, Problem> {
        let here = |setting: &&Setting| setting.group == *self.group && setting.spec.name == key;
        self.effective.settings().iter().find(here).ok_or_else(|| self.schema_bug(key))
    }

    fn schema_bug(&self, key: &str) -> Problem {
        let what =
            format!("this program reads {} in a way that its schema does not define", self.group.key(key));
        Problem::new(Code::ConfigKeyUnknown, what).with_hint("please report this as a bug")
    }
}

/// Values that are tables.
impl ConfigTable<'_> {
    #[cfg(feature = "schemas")]
    getters! {
        /// The fields of a table that is a value.
        fields: Fields -> BTreeMap<String, Value>;
    }

    getters! {
        /// A list of such tables.
        tables: Tables -> Vec<BTreeMap<String, Value>>;
    }

    /// Resolves a secret or URL of such a table, if it is set.
    pub(crate) fn secret_field(
        &self,
        key: &str,
        fields: &BTreeMap<String, Value>,
        name: &str,
    ) -> Result<Option<String>, Problem> {
        let Some(Value::Secret(source)) = fields.get(name) else { return Ok(None) };
        match source.resolve(self.environment) {
            Ok(secret) => Ok(Some(secret.expose_secret().to_owned())),
            Err(why) => Err(self.problem(key, Code::ConfigSecret, &format!("{name}: {why}"))),
        }
    }
}
