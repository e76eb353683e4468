//! Updates of the functions' configuration and code in the middle of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use emulators::lambda::Bootstrap;

/// An update of both functions' configuration, or of the code of one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redeploy {
    /// When the update is made, from the start of the burst.
    pub at: Duration,
    /// The variables that change. All others keep their values.
    pub variables: BTreeMap<String, String>,
    /// The code that changes. No variable changes then.
    pub code: Option<NewCode>,
}

/// Another executable for one of the functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCode {
    pub function: FunctionName,
    pub bootstrap: Bootstrap,
}

/// One of the two functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FunctionName {
    Aggregator,
    BatchProcessor,
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no function is skipped");
        f.write_str(value.get_name())
    }
}

/// The value of `--deploy-at`: when which function gets which executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployAt {
    pub at: Duration,
    pub function: FunctionName,
    /// The path of the executable, or `built-in`.
    pub executable: String,
}

/// A text that cannot be parsed as a [`DeployAt`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "wrong form: got `{0}`, expected SECONDS:FUNCTION=PATH, where FUNCTION is `aggregator` or `batch-processor`"
)]
pub struct MalformedDeployAt(String);

impl FromStr for DeployAt {
    type Err = MalformedDeployAt;

    fn from_str(text: &str) -> Result<DeployAt, MalformedDeployAt> {
        let wrong = || MalformedDeployAt(text.to_owned());
        let (secs, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (function, executable) = rest.split_once('=').ok_or_else(wrong)?;
        let function = <FunctionName as ValueEnum>::from_str(function, false);
        if executable.is_empty() {
            return Err(wrong());
        }
        Ok(DeployAt {
            at: seconds(secs).ok_or_else(wrong)?,
            function: function.map_err(|_| wrong())?,
            executable: executable.to_owned(),
        })
    }
}

fn seconds(text: &str) -> Option<Duration> {
    let secs = text.parse().ok()?;
    Duration::try_from_secs_f64(secs).ok()
}

/// A text that cannot be parsed as a redeploy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("wrong form: got `{0}`, expected SECONDS[:NAME=VALUE,...]")]
pub struct MalformedRedeploy(String);

impl FromStr for Redeploy {
    type Err = MalformedRedeploy;

    fn from_str(text: &str) -> Result<Redeploy, MalformedRedeploy> {
        let wrong = || MalformedRedeploy(text.to_owned());
        let (secs, pairs) = text.split_once(':').unwrap_or((text, ""));
        let at = seconds(secs);
        let mut variables: Vec<(String, String)> = Vec::new();
        for piece in pairs.split(',').filter(|_| !pairs.is_empty()) {
            match piece.split_once('=').filter(|(name, _)| is_name(name)) {
                Some((name, value)) => variables.push((name.to_owned(), value.to_owned())),
                // Without a name it belongs to the value before, which may contain commas, as a list of columns does.
                None => {
                    let (_, value) = variables.last_mut().ok_or_else(wrong)?;
                    value.push(',');
                    value.push_str(piece);
                }
            }
        }
        Ok(Redeploy {
            at: at.ok_or_else(wrong)?,
            variables: variables.into_iter().collect(),
            code: None,
        })
    }
}

fn is_name(text: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.starts_with(|first: char| first.is_ascii_uppercase()) && text.bytes().all(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (u64, Vec<(String, String)>) {
        let Redeploy { at, variables, .. } = text.parse().unwrap();
        (at.as_millis() as u64, Vec::from_iter(variables))
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_redeploy_may_change_any_number_of_variables() {
        assert_eq!(parsed("5"), (5_000, vec![]));
        assert_eq!(parsed("0.5:A_1=x"), (500, vec![pair("A_1", "x")]));
        let both = vec![pair("A", ""), pair("B", "2")];
        assert_eq!(parsed("5:B=1,A=,B=2"), (5_000, both));
    }

    #[test]
    fn a_value_may_have_commas_and_equals_signs() {
        let columns = r#"[{"name":"a","json":"b=c"},{"name":"d"}]"#;
        assert_eq!(
            parsed(&format!("5:SINK_COLUMNS={columns},SINK_FORMAT=csv")).1,
            [pair("SINK_COLUMNS", columns), pair("SINK_FORMAT", "csv")]
        );
    }

    #[test]
    fn one_function_at_a_time_gets_another_executable() {
        let parsed = |text: &str| text.parse::<DeployAt>();
        let deploy = parsed("2.5:batch-processor=target/a=b").unwrap();
        assert_eq!(deploy.at, Duration::from_millis(2_500));
        assert_eq!(deploy.function, FunctionName::BatchProcessor);
        assert_eq!(deploy.executable, "target/a=b");
        for text in [
            "",
            "2",
            "2:aggregator",
            "2:aggregator=",
            "2:other=x",
            "x:aggregator=y",
        ] {
            assert_eq!(parsed(text), Err(MalformedDeployAt(text.to_owned())));
        }
    }

    #[test]
    fn what_is_no_redeploy_is_refused() {
        for text in ["", "soon", "-1", "5:a=b", "5:=b", ":A=b", "5:x"] {
            let malformed = MalformedRedeploy(text.to_owned());
            assert_eq!(text.parse::<Redeploy>(), Err(malformed));
        }
    }
}
