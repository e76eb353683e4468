//! Opens the settings of a function: reads the configuration file, and starts the log as both say.

use shared::config::{CONFIG, ConfigError, ConfigFile, FILE_BYTES_MAX, Settings};

use crate::documents::read_document;
use crate::logs::init_logs;

/// Reads the file that `CONFIG` names, if it is set, and starts the log.
///
/// # Errors
/// The file cannot be read or parsed. Then the log is as the variables say.
pub async fn open_settings(
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ConfigFile>, ConfigError> {
    let file = read_config(lookup).await;
    let read = file.as_ref().ok().and_then(Option::as_ref);
    init_logs(Settings::new(lookup, read));
    file
}

/// Reads the file that `CONFIG` names, if it is set.
///
/// # Errors
/// The file cannot be read or parsed.
pub async fn read_config(
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ConfigFile>, ConfigError> {
    let Some(uri) = Settings::new(lookup, None).variable(CONFIG.name) else {
        return Ok(None);
    };
    let text = read_document(&uri, FILE_BYTES_MAX).await;
    let text = text.map_err(|words| {
        let allowed = CONFIG.value.allowed;
        ConfigError::of(format!(
            "`{CONFIG}`: cannot be read: got `{uri}`: {words}, expected {allowed} with at most {FILE_BYTES_MAX} bytes"
        ))
    })?;
    let name = uri.strip_prefix("file://").unwrap_or(&uri);
    ConfigFile::parse(name, text).map(Some)
}
