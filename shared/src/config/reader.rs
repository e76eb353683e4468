//! Reads declared settings, and reports all problems at once.

use std::fmt;
use std::str::FromStr;

use super::error::ConfigError;
use super::file::{ConfigFile, Place, Problem};
use super::known;
use super::variable::{Declared, Description, Kind, Number, Variable, Word};
use super::without_password::without_password;

/// Where settings come from: variables, and below them the file.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    file: Option<&'a ConfigFile>,
}

impl<'a> Settings<'a> {
    /// Returns the variables that `lookup` returns, the environment in `main` and a map in tests, and the values of the file that
    /// they do not override.
    pub fn new(
        lookup: &'a dyn Fn(&str) -> Option<String>,
        file: Option<&'a ConfigFile>,
    ) -> Settings<'a> {
        Settings { lookup, file }
    }

    /// Returns the settings with other variables.
    pub fn with_variables<'b>(self, lookup: &'b dyn Fn(&str) -> Option<String>) -> Settings<'b>
    where
        'a: 'b,
    {
        Settings { lookup, ..self }
    }

    /// Returns the value of a variable of the environment, if it is set.
    pub fn variable(&self, name: &str) -> Option<String> {
        (self.lookup)(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    /// Returns the text of a setting, if it is set and the file does not have something of another form.
    pub fn value<K: Kind>(&self, variable: &Variable<K>) -> Option<String> {
        self.found(variable)?.ok()
    }

    /// Returns what errors call a setting, after its place in the file if it is there: `service.toml:3:8: ` and `` `sink.uri` ``.
    pub fn named<K>(&self, variable: &Variable<K>) -> String {
        match self.place(variable.name, variable.key) {
            Some((name, place)) => format!("{name}:{place}: `{}`", self.word(variable)),
            None => format!("`{}`", self.word(variable)),
        }
    }

    /// Returns the text of a setting; an error if the file has something of another form.
    fn found<K: Kind>(&self, variable: &Variable<K>) -> Option<Result<String, ()>> {
        if let Some(value) = self.variable(variable.name) {
            return Some(Ok(value));
        }
        let value = self.file?.value(variable.key)?;
        match variable.value.text_of(value) {
            Some(text) if text.trim().is_empty() => None,
            Some(text) => Some(Ok(text.trim().to_owned())),
            None => Some(Err(())),
        }
    }

    /// Returns the key of a setting if there is a file, and the variable if it is set or there is none.
    fn word<K>(&self, variable: &Variable<K>) -> &'static str {
        let key = self.file.and(variable.key);
        key.filter(|_| self.variable(variable.name).is_none())
            .unwrap_or(variable.name)
    }

    /// Returns the file and the place in it that a setting comes from.
    fn place(&self, name: &str, key: Option<&str>) -> Option<(&'a str, Place)> {
        let file = self.file.filter(|_| self.variable(name).is_none())?;
        Some((file.name(), file.place(key?)?))
    }
}

/// Reads settings, and collects their problems and their declarations.
pub struct Reader<'a> {
    settings: Settings<'a>,
    problems: Vec<Problem>,
    declared: Vec<&'static dyn Declared>,
    rules: Vec<&'static str>,
}

/// The settings and rules of a function, for `docs/configuration.md` and for the schema.
#[derive(Clone)]
pub struct Declarations {
    /// Every setting, in the order in which they are read.
    pub variables: Vec<Description>,
    /// The same, as the values that read them.
    pub declared: Vec<&'static dyn Declared>,
    /// Rules about several variables, one sentence each.
    pub rules: Vec<&'static str>,
}

impl Declarations {
    /// Returns the declarations that `read` passes to its reader. No variable is set for it.
    pub fn of<T>(read: impl FnOnce(&mut Reader<'_>) -> T) -> Declarations {
        let mut reader = Reader::new(&|_| None);
        read(&mut reader);
        let variables = reader.declared.iter().map(|each| each.description());
        Declarations {
            variables: variables.collect(),
            declared: reader.declared,
            rules: reader.rules,
        }
    }
}

impl<'a> Reader<'a> {
    /// Returns a reader of the variables that `lookup` returns, without a file.
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Reader<'a> {
        Reader::of(Settings::new(lookup, None))
    }

    /// Returns a reader of settings.
    pub fn of(settings: Settings<'a>) -> Reader<'a> {
        Reader {
            settings,
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
        self.text(variable, parse).unwrap_or(default)
    }

    /// Returns the value of a word, or the default.
    pub fn word<T: Copy + PartialEq>(&mut self, variable: &'static Variable<Word<T>>) -> T {
        let Word { default, words } = variable.value;
        let parse = |text: &str| {
            let mut words = words.iter();
            words.find_map(|(word, meaning)| (*word == text).then_some(*meaning))
        };
        self.text(variable, parse).unwrap_or(default)
    }

    /// Returns the text of a setting, or its default, as parsed by `parse`; [`None`] if it is wrong, or not set and without a
    /// default.
    pub fn text<K: Kind, T>(
        &mut self,
        variable: &'static Variable<K>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.declared.push(variable);
        let value = self.value_or_default(variable)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            self.not_allowed(variable, &value);
        }
        parsed
    }

    /// Returns a text as [`text`](Self::text) does, with a parser that returns its own error.
    pub fn text_with<K: Kind, T, E: fmt::Display>(
        &mut self,
        variable: &'static Variable<K>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.declared.push(variable);
        let value = self.value_or_default(variable)?;
        parse(&value)
            .map_err(|error| self.wrong(variable, &value, &format!(": {error}")))
            .ok()
    }

    /// Returns whether a setting has a value.
    pub fn is_set(&self, setting: &dyn Declared) -> bool {
        let settings = &self.settings;
        let Description { name, key, .. } = setting.description();
        let in_file = || settings.file?.value(key);
        let is_text = |value| {
            let text = setting.text_of(value);
            text.is_none_or(|text| !text.trim().is_empty())
        };
        settings.variable(name).is_some() || in_file().is_some_and(is_text)
    }

    /// Returns the text of a setting, if it is set.
    pub fn value<K: Kind>(&self, variable: &Variable<K>) -> Option<String> {
        self.settings.value(variable)
    }

    /// Declares settings that something else reads, or that nothing does because this build lacks a cargo feature.
    pub fn declare(&mut self, variables: &[&'static dyn Declared]) {
        self.declared.extend(variables);
    }

    /// Adds a problem of one or several settings, which it calls by the names of their variables.
    pub fn problem(&mut self, problem: String) {
        self.problems.push(Problem {
            place: None,
            words: problem,
            names_variables: true,
        });
    }

    /// Declares a rule about several settings, and adds the problem if they break it.
    pub fn rule(&mut self, rule: &'static str, problem: Option<String>) {
        self.rules.push(rule);
        problem
            .into_iter()
            .for_each(|problem| self.problem(problem));
    }

    /// Returns `config` if there was no problem.
    ///
    /// # Errors
    /// [`ConfigError`] with every problem found.
    pub fn finish<T>(self, config: Option<T>) -> Result<T, ConfigError> {
        let file = self.settings.file;
        let of_file = file.map_or(&[][..], |file| &file.problems);
        match config {
            Some(config) if self.problems.is_empty() && of_file.is_empty() => return Ok(config),
            Some(_) | None => {}
        }
        let own = self
            .problems
            .iter()
            .map(|problem| self.in_words_of_the_file(problem));
        let mut problems = Vec::from_iter(own.chain(of_file.iter().cloned()));
        // In the order of the file; what is not in it keeps its order, and comes first.
        problems.sort_by_key(|problem| problem.place);
        let name = file.map_or("", ConfigFile::name);
        let problems = problems
            .into_iter()
            .map(|Problem { place, words, .. }| match place {
                Some(place) => format!("{name}:{place}: {words}"),
                None => words,
            });
        Err(ConfigError {
            problems: problems.collect(),
        })
    }

    /// Replaces the variables in a problem by their keys, and adds the place of the first that is in the file.
    fn in_words_of_the_file(&self, problem: &Problem) -> Problem {
        let Some(file) = self.settings.file.filter(|_| problem.names_variables) else {
            return problem.clone();
        };
        let (mut place, mut names_key) = (None, false);
        let pieces = problem.words.split('`').enumerate().map(|(at, piece)| {
            // Every other piece is between backticks.
            let key = known::key_of(piece).filter(|_| at % 2 == 1);
            let key = key.filter(|_| self.settings.variable(piece).is_none());
            if let Some(key) = key {
                names_key = true;
                place = place.or_else(|| file.place(key));
            }
            key.unwrap_or(piece)
        });
        let mut words = Vec::from_iter(pieces).join("`");
        if names_key && place.is_none() {
            words = format!("{}: {words}", file.name());
        }
        Problem {
            place,
            words,
            names_variables: false,
        }
    }

    /// Returns the text of a setting, or its default; [`None`] if it has neither, and reports one that must be set.
    fn value_or_default<K: Kind>(&mut self, variable: &'static Variable<K>) -> Option<String> {
        if self.settings.found(variable).is_some() {
            return self.found(variable);
        }
        let default = variable.value.default();
        if default.is_none() {
            let allowed = self.allowed(variable);
            self.problem(format!("`{variable}`: not set: expected {allowed}"));
        }
        default.filter(|text| !text.is_empty())
    }

    /// Returns the text of a setting, and reports a value of another form.
    fn found<K: Kind>(&mut self, variable: &'static Variable<K>) -> Option<String> {
        let found = self.settings.found(variable)?;
        if found.is_err() {
            self.not_allowed(variable, "");
        }
        found.ok()
    }

    fn not_allowed<K: Kind>(&mut self, variable: &Variable<K>, value: &str) {
        let expected = format!(", expected {}", self.allowed(variable));
        self.wrong(variable, value, &expected);
    }

    /// Reports a wrong value, as it is written where it comes from.
    fn wrong<K>(&mut self, variable: &Variable<K>, value: &str, error: &str) {
        let place = self.settings.place(variable.name, variable.key);
        let shown = match (self.settings.file, place) {
            (Some(file), Some(_)) => file.shown(variable.key.unwrap_or_default()),
            _ => format!("`{}`", without_password(value)),
        };
        let word = self.settings.word(variable);
        self.problems.push(Problem {
            place: place.map(|(_, place)| place),
            words: format!("`{word}`: wrong value: got {shown}{error}"),
            names_variables: false,
        });
    }

    fn allowed<K: Kind>(&self, variable: &Variable<K>) -> String {
        match self.settings.place(variable.name, variable.key) {
            Some(_) => variable.value.allowed_in_file(),
            None => variable.value.allowed(),
        }
    }
}
