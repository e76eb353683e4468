//! Reads declared variables, and reports all problems at once.

use std::fmt;
use std::str::FromStr;

use super::variable::{Declared, Description, Kind, Number, Text, Unset, Variable, Word};
use super::without_password::without_password;

/// All problems of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub problems: Vec<String>,
}

impl ConfigError {
    /// Returns `config` if there are no other problems either.
    ///
    /// # Errors
    /// [`ConfigError`] with the problems of `config`, followed by the others.
    pub fn unless<C>(
        config: Result<C, ConfigError>,
        others: impl IntoIterator<Item = String>,
    ) -> Result<C, ConfigError> {
        let mut others = others.into_iter().peekable();
        if others.peek().is_none() {
            return config;
        }
        let mut problems = config.err().map(|error| error.problems).unwrap_or_default();
        problems.extend(others);
        Err(ConfigError { problems })
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration has {} problem(s)", self.problems.len())?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "; {problem}"))
    }
}

impl std::error::Error for ConfigError {}

/// Reads variables, and collects their problems and their declarations.
pub struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
    declared: Vec<&'static dyn Declared>,
    rules: Vec<&'static str>,
}

/// The variables and rules of a function, for `docs/configuration.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declarations {
    /// Every variable, in the order in which they are read.
    pub variables: Vec<Description>,
    /// Rules about several variables, one sentence each.
    pub rules: Vec<&'static str>,
}

impl Declarations {
    /// Returns the declarations that `read` passes to its reader. No variable is set for it.
    pub fn of<T>(read: impl FnOnce(&mut Reader<'_>) -> T) -> Declarations {
        let mut reader = Reader::new(&|_| None);
        read(&mut reader);
        Declarations {
            variables: reader
                .declared
                .iter()
                .map(|each| each.description())
                .collect(),
            rules: reader.rules,
        }
    }
}

impl<'a> Reader<'a> {
    /// Returns a reader of the variables that `lookup` returns: the environment in `main`, a map in tests.
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Reader<'a> {
        Reader {
            lookup,
            problems: Vec::new(),
            declared: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// Returns the value of a number, or its default.
    pub fn number<T>(&mut self, variable: &'static Variable<Number<T>>) -> T
    where
        T: Copy + PartialOrd + FromStr + fmt::Display,
    {
        let Number {
            default, min, max, ..
        } = variable.value;
        let parse = |text: &str| {
            let number = text.parse().ok();
            number.filter(|number| (min..=max).contains(number))
        };
        self.read(variable, parse).unwrap_or(default)
    }

    /// Returns the value of a word, or the default.
    pub fn word<T: Copy + PartialEq>(&mut self, variable: &'static Variable<Word<T>>) -> T {
        let Word { default, words } = variable.value;
        let parse = |text: &str| {
            let mut words = words.iter();
            words.find_map(|(word, meaning)| (*word == text).then_some(*meaning))
        };
        self.read(variable, parse).unwrap_or(default)
    }

    /// Returns a text as parsed by `parse`; [`None`] if the text is wrong, or not set and without a default.
    pub fn text<T>(
        &mut self,
        variable: &'static Variable<Text>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.declared.push(variable);
        let value = self.value_or_default(variable)?;
        self.parsed(variable, &value, parse)
    }

    /// Returns a text as [`text`](Self::text) does, with a parser that returns its own error.
    pub fn text_with<T, E: fmt::Display>(
        &mut self,
        variable: &'static Variable<Text>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.declared.push(variable);
        let value = self.value_or_default(variable)?;
        parse(&value)
            .map_err(|error| {
                let value = without_password(&value);
                self.problem(format!("`{variable}`: wrong value: got `{value}`: {error}"))
            })
            .ok()
    }

    /// Returns whether a variable has a value.
    pub fn is_set<K>(&self, variable: &Variable<K>) -> bool {
        self.raw(variable.name).is_some()
    }

    /// Returns the text of a variable, if it is set.
    pub fn value<K>(&self, variable: &Variable<K>) -> Option<String> {
        self.raw(variable.name)
    }

    /// Adds a problem of one or several variables.
    pub fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Declares a rule about several variables, and adds the problem if they break it.
    pub fn rule(&mut self, rule: &'static str, problem: Option<String>) {
        self.rules.push(rule);
        self.problems.extend(problem);
    }

    /// Returns `config` if there was no problem.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem found.
    pub fn finish<T>(self, config: Option<T>) -> Result<T, ConfigError> {
        match config {
            Some(config) if self.problems.is_empty() => Ok(config),
            Some(_) | None => Err(ConfigError {
                problems: self.problems,
            }),
        }
    }

    fn raw(&self, name: &str) -> Option<String> {
        (self.lookup)(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    fn read<K: Kind, T>(
        &mut self,
        variable: &'static Variable<K>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.declared.push(variable);
        let value = self.raw(variable.name)?;
        self.parsed(variable, &value, parse)
    }

    fn value_or_default(&mut self, variable: &Variable<Text>) -> Option<String> {
        let value = self.raw(variable.name);
        match (value, variable.value.unset) {
            (Some(value), _) => Some(value),
            (None, Unset::Default(text)) => Some(text.to_owned()),
            (None, Unset::Nothing) => None,
            (None, Unset::Refused) => {
                let allowed = variable.value.allowed;
                self.problem(format!("`{variable}`: not set: expected {allowed}"));
                None
            }
        }
    }

    fn parsed<K: Kind, T>(
        &mut self,
        variable: &Variable<K>,
        value: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let parsed = parse(value);
        if parsed.is_none() {
            let (value, allowed) = (without_password(value), variable.value.allowed());
            self.problem(format!(
                "`{variable}`: wrong value: got `{value}`, expected {allowed}"
            ));
        }
        parsed
    }
}
