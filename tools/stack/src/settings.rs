//! What a stack says about itself.

use std::collections::BTreeMap;

/// Outputs and parameters of the SAM template, and outputs of the CDK construct, whose names are not those of their variables in camel case.
const OUTPUTS: [(&str, &str); 4] = [
    ("Answers", "ANSWERS_FROM"),
    ("BatchTableName", "DDB_BATCH_TABLE"),
    ("LockTableName", "DDB_LOCK_TABLE"),
    ("QuarantineQueueUrl", "QUARANTINE_SQS_URL"),
];

/// Variables that are not shown: secrets, and addresses that differ at every start.
const HIDDEN: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "PGPASSWORD",
    "SINK_PASSWORD",
];

/// The settings of a stack, by the names of their variables: `INPUT_QUEUE_URL`, `MAX_BATCH_SIZE` and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For people: the stack, or the file.
    pub name: String,
    /// Where the settings are from, which decides what errors call them.
    origin: Origin,
    values: BTreeMap<String, String>,
    /// What the origin says, in its own order and by its own names, without what must not be shown.
    shown: Vec<(String, String)>,
}

/// Where settings are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    CloudFormation,
    Variables,
}

/// Why a stack's settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read, or a line of it is not a variable.
    #[error("`{path}`: {source}, expected lines `export NAME='VALUE'`")]
    File {
        path: String,
        #[source]
        source: dotenvy::Error,
    },
    /// CloudFormation returned an error.
    #[error("stack `{stack}`: {message}")]
    CloudFormation { stack: String, message: String },
    /// What was found does not suffice.
    #[error("{name}: {}", .problems.join("; "))]
    Incomplete { name: String, problems: Vec<String> },
}

impl SettingsError {
    /// Returns whether the settings themselves are wrong, and no service refused a request.
    pub fn is_usage(&self) -> bool {
        match self {
            SettingsError::File { .. } | SettingsError::Incomplete { .. } => true,
            SettingsError::CloudFormation { .. } => false,
        }
    }
}

impl Settings {
    /// Returns settings from variables.
    pub fn of_variables(name: String, values: BTreeMap<String, String>) -> Settings {
        let shown = values.iter().filter(|(name, _)| {
            !HIDDEN.contains(&name.as_str()) && !name.starts_with("AWS_ENDPOINT_URL")
        });
        let shown = shown.map(|(name, value)| (name.clone(), value.clone()));
        let shown = shown.collect();
        Settings {
            name,
            origin: Origin::Variables,
            values,
            shown,
        }
    }

    /// Returns settings from the variables of this process. None is shown: most of them are about other things, and some may
    /// be secrets.
    pub(crate) fn of_environment() -> Settings {
        let variables = std::env::vars_os();
        // A variable that is no text cannot be one of ours.
        let texts = variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Settings {
            name: "environment (neither `--stack` nor `--env-file` is given)".to_owned(),
            origin: Origin::Variables,
            values: texts.collect(),
            shown: Vec::new(),
        }
    }

    /// Returns settings from the parameters and outputs of a CloudFormation stack. Parameters are shown.
    pub fn of_stack(
        name: String,
        parameters: Vec<(String, String)>,
        outputs: Vec<(String, String)>,
    ) -> Settings {
        let all = parameters.iter().chain(&outputs);
        let values = all.map(|(name, value)| (variable_of(name), value.clone()));
        Settings {
            name,
            origin: Origin::CloudFormation,
            values: values.collect(),
            shown: parameters,
        }
    }

    /// Adds the values of variables that have none, as the functions take them from their configuration file.
    pub fn add(&mut self, values: BTreeMap<String, String>) {
        for (name, value) in values {
            if self.value(&name).is_none() {
                self.values.insert(name, value);
            }
        }
    }

    /// Returns the value of a variable; `None` if it is empty.
    pub fn value(&self, variable: &str) -> Option<&str> {
        let value = self.values.get(variable).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Returns every setting that people may see, by the names of the stack.
    pub fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        let shown = self.shown.iter();
        shown.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns what the stack calls a variable: the name of an output or parameter, or the variable itself.
    pub fn own_name(&self, variable: &str) -> String {
        match self.origin {
            Origin::Variables => variable.to_owned(),
            Origin::CloudFormation => output_of(variable),
        }
    }

    /// Returns a collector of what is missing or wrong.
    pub fn problems(&self) -> Problems<'_> {
        Problems {
            settings: self,
            problems: Vec::new(),
        }
    }
}

/// Reads settings, and collects what is missing or wrong with them.
pub struct Problems<'a> {
    settings: &'a Settings,
    problems: Vec<String>,
}

impl Problems<'_> {
    /// Returns the value of a variable; empty if it is missing, which is a problem. `what` says what is expected.
    pub fn required(&mut self, variable: &str, what: &str) -> String {
        let value = self.settings.value(variable).map(str::to_owned);
        value.unwrap_or_else(|| {
            let name = self.settings.own_name(variable);
            self.problems
                .push(format!("`{name}`: missing: expected {what}"));
            String::new()
        })
    }

    /// Adds that the value of a variable is wrong.
    pub fn wrong(&mut self, variable: &str, value: &str, expected: &str) {
        let name = self.settings.own_name(variable);
        self.problems.push(format!(
            "`{name}`: wrong value: got `{value}`, expected {expected}"
        ));
    }

    /// Returns `value` if there was no problem.
    ///
    /// # Errors
    /// [`SettingsError::Incomplete`] with every problem.
    pub fn finish<T>(self, value: T) -> Result<T, SettingsError> {
        match self.problems.is_empty() {
            true => Ok(value),
            false => Err(SettingsError::Incomplete {
                name: self.settings.name.clone(),
                problems: self.problems,
            }),
        }
    }
}

/// Returns the variable of an output or parameter: `MAX_BATCH_SIZE` for `MaxBatchSize`.
fn variable_of(name: &str) -> String {
    if let Some((_, variable)) = OUTPUTS.iter().find(|(output, _)| *output == name) {
        return (*variable).to_owned();
    }
    let mut variable = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !variable.is_empty() {
            variable.push('_');
        }
        variable.push(letter.to_ascii_uppercase());
    }
    variable
}

/// Returns the output or parameter of a variable.
fn output_of(variable: &str) -> String {
    if let Some((output, _)) = OUTPUTS.iter().find(|(_, name)| *name == variable) {
        return (*output).to_owned();
    }
    let capitalised = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{first}{}", rest.to_ascii_lowercase())
    };
    variable.split('_').map(capitalised).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_and_parameters_have_the_names_of_their_variables() {
        for (output, variable) in [
            ("InputQueueUrl", "INPUT_QUEUE_URL"),
            ("InputDeadLetterQueueUrl", "INPUT_DEAD_LETTER_QUEUE_URL"),
            ("BatchTableName", "DDB_BATCH_TABLE"),
            ("QuarantineQueueUrl", "QUARANTINE_SQS_URL"),
            ("MaxBatchSize", "MAX_BATCH_SIZE"),
            ("Sink", "SINK"),
            ("Answers", "ANSWERS_FROM"),
        ] {
            assert_eq!(variable_of(output), variable);
            assert_eq!(output_of(variable), output);
        }
    }

    #[test]
    fn a_problem_has_the_name_that_the_stack_uses() {
        let parameters = vec![("OnDuplicate".to_owned(), "ignore".to_owned())];
        let settings = Settings::of_stack("stack `s`".to_owned(), parameters, Vec::new());
        assert_eq!(settings.value("ON_DUPLICATE"), Some("ignore"));
        let mut problems = settings.problems();
        problems.required("DDB_BATCH_TABLE", "the name of the batch table");
        problems.wrong("ON_DUPLICATE", "ignore", "`drop` or `requeue`");
        let error = problems.finish(()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stack `s`: `BatchTableName`: missing: expected the name of the batch table; \
             `OnDuplicate`: wrong value: got `ignore`, expected `drop` or `requeue`"
        );
    }
}
