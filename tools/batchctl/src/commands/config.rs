//! Configuration files: their problems, their schema, and what a setting means. No stack is needed.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use protocol::text::counted;
use serde::Serialize;
use shared::config::{
    ConfigError, ConfigFile, Description, FILE_BYTES_MAX, Settings, nearest_key, placeholder,
    schema,
};
use sinks::columns_source::with_columns;

use crate::config_file::functions;
use crate::failure::{Done, Failure};
use crate::outcome::Output;

/// Options of `config`.
#[derive(Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Report every problem of a configuration file, with its line and column
    Check {
        /// The file, such as `service.toml`
        file: PathBuf,
    },
    /// Print the JSON Schema of configuration files
    Schema,
    /// Show one setting: its key, its variable, its default, what is allowed, and what it means
    Explain {
        /// The key or the variable, such as `batches.max_size` or `MAX_BATCH_SIZE`
        #[arg(value_name = "KEY-OR-VARIABLE")]
        name: String,
    },
}

/// Runs the command.
pub async fn run(args: &ConfigArgs, output: Output<'_>) -> Result<Done, Failure> {
    match &args.verb {
        Verb::Check { file } => check(file, output).await,
        Verb::Schema => {
            let functions = functions();
            let variables = functions.iter().flat_map(|(_, each)| &each.variables);
            let schema = schema(variables);
            output.print(&schema, format!("{schema:#}\n"));
            Ok(Done::Yes)
        }
        Verb::Explain { name } => explain(name, output),
    }
}

/// What is wrong with a file.
#[derive(Serialize)]
struct Checked {
    problems: Vec<String>,
}

async fn check(path: &Path, output: Output<'_>) -> Result<Done, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(Failure::file(path))?;
    let problems = match text.len() as u64 {
        bytes if bytes > FILE_BYTES_MAX => vec![format!(
            "{name}: too large: got {bytes} bytes, expected at most {FILE_BYTES_MAX}"
        )],
        _ => match ConfigFile::parse(&name, text) {
            Ok(file) => problems(&file).await,
            Err(error) => error.problems,
        },
    };
    let text = match problems.is_empty() {
        true => format!("{name}: no problems\n"),
        false => problems.join("\n") + "\n",
    };
    let count = problems.len();
    output.print(&Checked { problems }, text);
    match count {
        0 => Ok(Done::Yes),
        _ => Err(Failure::Config {
            file: name,
            problems: counted(count as u64, "problem"),
        }),
    }
}

/// Returns the problems of both functions with the file and the tables and queues of a deployment.
async fn problems(file: &ConfigFile) -> Vec<String> {
    let settings = Settings::new(&placeholder, Some(file));
    let aggregator = aggregator::Config::of(settings).err();
    let batch_processor: Result<_, ConfigError> =
        with_columns(settings, batch_processor::Config::of).await;
    let errors = [aggregator, batch_processor.err()];
    ConfigError::problems_of(errors.into_iter().flatten())
}

/// A setting, as it is printed.
#[derive(Serialize)]
struct Explained {
    key: Option<&'static str>,
    variable: &'static str,
    read_by: String,
    /// [`None`] if the setting has no default.
    default: Option<String>,
    allowed: String,
    meaning: &'static str,
}

fn explain(name: &str, output: Output<'_>) -> Result<Done, Failure> {
    let functions = functions();
    let is_meant =
        |each: &&Description| each.key == Some(name) || each.name.eq_ignore_ascii_case(name);
    let found = functions.iter().filter_map(|(function, declarations)| {
        let description = declarations.variables.iter().find(is_meant)?;
        Some((*function, description))
    });
    let found = Vec::from_iter(found);
    let Some((_, setting)) = found.first() else {
        return Err(Failure::NotFound(format!(
            "`{name}`: no such setting: expected a key such as `{}`, or a variable",
            nearest_key(name)
        )));
    };
    let read_by = Vec::from_iter(found.iter().map(|(function, _)| *function));
    let default = setting.default.clone().filter(|text| !text.is_empty());
    let explained = Explained {
        key: setting.key,
        variable: setting.name,
        read_by: read_by.join(" and "),
        default,
        allowed: match setting.key {
            Some(_) => setting.allowed_in_file.clone(),
            None => setting.allowed.clone(),
        },
        meaning: setting.meaning,
    };
    let shown = match (&setting.default, &explained.default) {
        (None, _) => "none: it must be set",
        (Some(_), None) => "none",
        (Some(_), Some(text)) => text,
    };
    let text = format!(
        "key       {}\nvariable  {}\nread by   {}\ndefault   {shown}\nallowed   {}\n\n{}\n",
        explained.key.unwrap_or("none: it is only a variable"),
        explained.variable,
        explained.read_by,
        explained.allowed,
        explained.meaning
    );
    output.print(&explained, text);
    Ok(Done::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn problems_of(text: &str) -> Vec<String> {
        match ConfigFile::parse("service.toml", text.to_owned()) {
            Ok(file) => problems(&file).await,
            Err(error) => error.problems,
        }
    }

    #[tokio::test]
    async fn the_example_has_no_problems_and_is_short() {
        let example = include_str!("../../../../docs/examples/service.toml");
        assert_eq!(problems_of(example).await, [""; 0]);
        assert!(example.lines().count() <= 31);
    }

    #[tokio::test]
    async fn what_must_be_set_is_named_by_its_key() {
        let problems = problems_of("").await;
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("service.toml: `events.id`: not set: expected `json:"));
        assert!(problems[1].starts_with("service.toml: `sink.uri`: not set: expected `file:"));
    }

    #[tokio::test]
    async fn problems_of_both_functions_and_of_rules_are_reported_with_keys_and_places() {
        let text = "\
            [events]\n\
            id = \"json:a[\"\n\
            [batches]\n\
            window = \"16m\"\n\
            close_time = \"at\"\n\
            [quota]\n\
            key = \"customer\"\n\
            [delivery]\n\
            hours = \"never\"\n\
            [sink]\n\
            uri = \"sftp://user@host/in\"\n\
            secret = \"hush\"\n\
            format = \"fixed-width\"\n\
            columns = [{ name = \"id\", json = \"id\" }]\n";
        let problems = problems_of(text).await;
        for expected in [
            "service.toml:2:6: `events.id`: wrong value: got `\"json:a[\"`: ",
            "service.toml:4:10: `batches.window`: wrong value: got `\"16m\"`, expected a duration from `\"1s\"` to `\"897s\"`, or a whole number of seconds",
            "service.toml:5:14: `batches.close_time` is set, but `batches.close_at` is not: there are no periods",
            "service.toml:7:7: `quota.max`: not set: expected how many events of a key are delivered, because `quota.key` is set",
            "service.toml:9:9: `delivery.hours`: wrong value: got `\"never\"`: ",
            "service.toml:11:7: `sink.host_key`: not set: `sink.uri` `sftp:` needs it",
            "service.toml:12:10: `sink.secret`: wrong value (not shown): ",
            "service.toml:14:11: `sink.columns`: ",
        ] {
            let found = problems.iter().any(|problem| problem.starts_with(expected));
            assert!(found, "{expected} in {problems:#?}");
        }
        assert!(!problems.concat().contains("hush"), "{problems:?}");
    }

    #[tokio::test]
    async fn columns_in_a_file_are_read_and_their_problems_have_the_place_of_the_key() {
        let text = "\
            [events]\n\
            id = \"json:id\"\n\
            [sink]\n\
            uri = \"file:///out\"\n\
            format = \"csv\"\n\
            columns = \"file:///nonexistent/columns.json\"\n";
        let problems = problems_of(text).await;
        assert_eq!(problems.len(), 1, "{problems:?}");
        let words = "service.toml:6:11: `sink.columns`: wrong value: got `file:///nonexistent/columns.json`: No such file";
        assert!(problems[0].starts_with(words), "{problems:?}");
    }

    #[test]
    fn every_key_and_every_variable_can_be_explained() {
        for name in shared::config::keys().chain(shared::config::variable_names()) {
            assert_eq!(explain(name, Output::Json).unwrap(), Done::Yes);
        }
        let error = explain("batches.maxsize", Output::Json).unwrap_err();
        let error = error.to_string();
        let words = "`batches.maxsize`: no such setting";
        assert!(error.contains(words), "{error}");
        assert!(error.contains("`batches.max_size`"), "{error}");
    }
}
