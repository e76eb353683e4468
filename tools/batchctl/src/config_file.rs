//! The configuration file of a stack, which has settings that are neither parameters nor variables.

use std::path::Path;
use std::time::Duration;

use aws::{Sdk, read_with};
use shared::config::{CONFIG, ConfigFile, Declarations, FILE_BYTES_MAX};
use stack::{Connection, Settings};

use crate::failure::Failure;

/// Time between two attempts at an object or a parameter.
const ATTEMPT_EVERY: Duration = Duration::from_secs(3);

/// Returns the declarations of both functions, with what people call the functions.
pub fn functions() -> [(&'static str, Declarations); 2] {
    [
        ("the aggregator", aggregator::Config::declarations()),
        (
            "the batch-processor",
            batch_processor::Config::declarations(),
        ),
    ]
}

/// Reads the file of `--config`, or else the one that `CONFIG` of the stack names.
///
/// # Errors
/// The file cannot be read or parsed, or it is in the deployment package and `--config` is missing.
pub async fn read(
    settings: &Settings,
    connection: &Connection,
    path: Option<&Path>,
) -> Result<Option<ConfigFile>, Failure> {
    let (name, text) = match (path, settings.value(CONFIG.name)) {
        (None, None) => return Ok(None),
        (Some(path), _) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(Failure::file(path))?;
            (name, text)
        }
        (None, Some(uri)) => {
            let sdk = Sdk::with_config(&connection.config, |name| std::env::var(name).ok());
            let text = read_with(&sdk, uri, FILE_BYTES_MAX, ATTEMPT_EVERY).await;
            let text = text.map_err(|words| {
                let own = settings.own_name(CONFIG.name);
                Failure::Usage(format!(
                    "`{own}`: cannot be read: got `{uri}`: {words}, expected a place that can be read from here, or `--config` with the same file"
                ))
            })?;
            (uri.to_owned(), text)
        }
    };
    let file = ConfigFile::parse(&name, text);
    file.map(Some)
        .map_err(|error| Failure::Usage(error.to_string()))
}
