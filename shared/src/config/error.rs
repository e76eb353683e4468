//! The problems of a configuration.

/// All problems of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration has {} problem(s); {}", .problems.len(), .problems.join("; "))]
pub struct ConfigError {
    pub problems: Vec<String>,
}

impl ConfigError {
    /// Returns an error with one problem.
    pub fn of(problem: String) -> ConfigError {
        ConfigError {
            problems: vec![problem],
        }
    }

    /// Returns the problems of several configurations, each problem once.
    pub fn problems_of(errors: impl IntoIterator<Item = ConfigError>) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        for problem in errors.into_iter().flat_map(|error| error.problems) {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        problems
    }

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
