//! The configuration file: its values, and where each is.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::file_value::FileValue;
use super::known;
use super::variable::{Declared, Description};
use super::without_password::without_password;

/// The longest configuration file.
pub const FILE_BYTES_MAX: u64 = 64 * 1_024;
/// The longest piece of the file that an error quotes, in characters.
const QUOTED_CHARACTERS_MAX: usize = 120;

/// A configuration file whose syntax is right.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// The path or URI of the file, as errors name it.
    name: String,
    text: String,
    values: BTreeMap<String, (FileValue, Range<usize>)>,
    /// Problems of undeclared keys.
    pub(super) problems: Vec<Problem>,
}

/// A problem, with its place in the file if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) place: Option<Place>,
    pub(super) words: String,
    /// Whether the words name settings by their variables, and have no place yet.
    pub(super) names_variables: bool,
}

/// A line and a column, from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    line: usize,
    column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl ConfigFile {
    /// Parses the file. `name` is what errors call it.
    ///
    /// # Errors
    /// [`ConfigError`] with every syntax error, duplicate keys among them. Unknown keys are no error here: the [`Reader`] reports
    /// them together with the problems of values.
    ///
    /// [`Reader`]: super::Reader
    pub fn parse(name: &str, text: String) -> Result<ConfigFile, ConfigError> {
        let mut file = ConfigFile {
            name: name.to_owned(),
            text: String::new(),
            values: BTreeMap::new(),
            problems: Vec::new(),
        };
        let (document, errors) = DeTable::parse_recoverable(&text);
        if !errors.is_empty() {
            let places = errors.iter().map(|error| error.span().unwrap_or_default());
            let places = places.map(|span| place_in(&text, span.start));
            let words = errors.iter().map(|one| one.message().replace('\n', ", "));
            let problems = places.zip(words);
            let problems = problems.map(|(place, words)| format!("{name}:{place}: {words}"));
            return Err(ConfigError {
                problems: problems.collect(),
            });
        }
        file.text.clone_from(&text);
        file.add("", document.into_inner());
        Ok(file)
    }

    /// Adds every value below `section`, and a problem for every undeclared key.
    fn add(&mut self, section: &str, table: DeTable<'_>) {
        for (key, value) in table {
            let (at, span) = (key.span(), value.span());
            let key = match section {
                "" => key.into_inner().into_owned(),
                _ => format!("{section}.{}", key.get_ref()),
            };
            let value = match value.into_inner() {
                DeValue::Table(table) if is_section(&key) => {
                    self.add(&key, table);
                    continue;
                }
                value => FileValue::of(&value),
            };
            match unknown_key(&key, &value) {
                None => {
                    self.values.insert(key, (value, span));
                }
                Some(words) => self.problems.push(Problem {
                    place: Some(place_in(&self.text, at.start)),
                    words,
                    names_variables: false,
                }),
            }
        }
    }

    /// Returns what errors call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file without the values of these variables, for a function that does not read them.
    pub fn without(mut self, variables: &[&str]) -> ConfigFile {
        let keys = variables.iter().filter_map(|name| known::key_of(name));
        keys.for_each(|key| {
            self.values.remove(key);
        });
        self
    }

    /// Returns the values of the file as the variables would have them, by the names of the variables. A value of another form is
    /// left out.
    pub fn variables<'d>(
        &self,
        declared: impl IntoIterator<Item = &'d &'static dyn Declared>,
    ) -> BTreeMap<String, String> {
        let declared = declared.into_iter();
        let set = declared.filter_map(|each| {
            let Description { name, key, .. } = each.description();
            Some((name.to_owned(), each.text_of(self.value(key)?)?))
        });
        set.collect()
    }

    pub(super) fn value(&self, key: Option<&str>) -> Option<&FileValue> {
        self.values.get(key?).map(|(value, _)| value)
    }

    pub(super) fn place(&self, key: &str) -> Option<Place> {
        let (_, span) = self.values.get(key)?;
        Some(place_in(&self.text, span.start))
    }

    /// Returns a value as an error shows it: as it is written if it is a string, a number or a boolean, and its type otherwise.
    pub(super) fn shown(&self, key: &str) -> String {
        match self.values.get(key) {
            Some((FileValue::Text(_) | FileValue::Integer(_) | FileValue::Boolean(_), span)) => {
                quoted(self.text.get(span.clone()).unwrap_or_default())
            }
            Some((FileValue::List(_), _)) => "an array".to_owned(),
            Some((FileValue::Table, _)) => "a table".to_owned(),
            Some((FileValue::Other(words), _)) => (*words).to_owned(),
            None => "nothing".to_owned(),
        }
    }
}

/// Returns what is written in the file without its passwords, and cut off if it is long.
fn quoted(written: &str) -> String {
    let shown = without_password(written);
    let mut characters = shown.chars();
    let mut text: String = characters.by_ref().take(QUOTED_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        text.push('…');
    }
    format!("`{text}`")
}

fn is_section(key: &str) -> bool {
    known::keys().any(|known| {
        let rest = known.strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with('.'))
    })
}

/// Returns the problem of an undeclared key.
fn unknown_key(key: &str, value: &FileValue) -> Option<String> {
    if known::keys().any(|known| known == key) {
        return None;
    }
    if let Some(now) = known::removed(key) {
        return Some(format!("`{key}`: removed key: delete it: {now}"));
    }
    if is_section(key) {
        return Some(format!(
            "`{key}`: wrong type: expected a section `[{key}]` with keys"
        ));
    }
    if *value == FileValue::Table {
        let sections = known::keys().filter_map(|key| key.rsplit_once('.'));
        let meant = nearest(key, sections.map(|(section, _)| section));
        return Some(format!("`{key}`: unknown section: expected `{meant}`"));
    }
    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
    // The right key in a wrong section, or the variable instead of the key.
    let elsewhere = known::keys().find(|known| known.ends_with(&format!(".{name}")));
    let variable = known::key_of(&name.to_ascii_uppercase());
    let near = nearest_key(key);
    let is_near = near.starts_with(section) && strsim::osa_distance(key, near) <= 2;
    let meant = match variable.or(elsewhere) {
        Some(meant) if !is_near => meant,
        Some(_) | None => near,
    };
    Some(format!("`{key}`: unknown key: expected `{meant}`"))
}

/// Returns the key that is most like a text.
pub fn nearest_key(text: &str) -> &'static str {
    nearest(text, known::keys())
}

fn nearest<'k>(key: &str, known: impl Iterator<Item = &'k str>) -> &'k str {
    let nearest = known.min_by_key(|known| strsim::osa_distance(key, known));
    nearest.unwrap_or_default()
}

fn place_in(text: &str, at: usize) -> Place {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    Place {
        line: before.matches('\n').count() + 1,
        column: line.chars().count() + 1,
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
