//! What is wrong with a copybook.

use std::fmt;

/// One thing that is wrong with a copybook, or that is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The name of the item as the copybook has it; [`None`] if the problem is not that of an item.
    pub item: Option<String>,
    /// The value that is wrong; [`None`] if something is missing.
    pub value: Option<String>,
    /// What is wrong with the value, and what is allowed.
    pub reason: String,
}

impl Problem {
    /// Returns a problem with a value of an item.
    pub(crate) fn of_item(
        line: usize,
        item: &str,
        value: impl Into<String>,
        reason: impl Into<String>,
    ) -> Problem {
        Problem {
            line,
            item: Some(item.to_owned()),
            value: Some(value.into()),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        for part in [&self.item, &self.value].into_iter().flatten() {
            write!(f, "`{part}`: ")?;
        }
        f.write_str(&self.reason)
    }
}

/// Everything that is wrong with a copybook, in the order of the lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.problems))]
pub struct CopybookError {
    /// The problems; there is at least one.
    pub problems: Vec<Problem>,
}

impl CopybookError {
    pub(crate) fn new(mut problems: Vec<Problem>) -> CopybookError {
        problems.sort_by_key(|problem| problem.line);
        CopybookError { problems }
    }
}

fn joined(problems: &[Problem]) -> String {
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_joined_in_the_order_of_their_lines() {
        let missing = Problem {
            line: 1,
            item: None,
            value: None,
            reason: "no record".to_owned(),
        };
        let error = CopybookError::new(vec![
            Problem::of_item(12, "CUST-ID", "REDEFINES", "not supported"),
            missing,
        ]);
        assert_eq!(
            error.to_string(),
            "line 1: no record; line 12: `CUST-ID`: `REDEFINES`: not supported"
        );
    }
}
