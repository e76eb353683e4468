//! Reads a stack from a file of variables, as `batch-local serve` prints them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::settings::SettingsError;

/// Returns the variables of a file with lines `NAME=VALUE` or `export NAME='VALUE'`; lines that begin with `#` are comments.
///
/// # Errors
/// The file cannot be read, or a line has another form.
pub(crate) fn read_env_file(path: &Path) -> Result<BTreeMap<String, String>, SettingsError> {
    let file_error = |source| SettingsError::File {
        path: path.display().to_string(),
        source,
    };
    let pairs = dotenvy::from_path_iter(path).map_err(file_error)?;
    pairs.collect::<Result<_, _>>().map_err(file_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn read(text: &str) -> Result<Settings, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("env");
        std::fs::write(&path, text).unwrap();
        let (read, name) = (read_env_file(&path), path.display().to_string());
        let variables = read.map_err(|error| error.to_string().replace(&name, "FILE"))?;
        Ok(Settings::of_variables("`FILE`".to_owned(), variables))
    }

    #[test]
    fn the_variables_of_local_serve_are_settings() {
        let settings = read(
            "# The stack is running; Ctrl-C stops it. Variables for another client:\n\
             export INPUT_QUEUE_URL=http://127.0.0.1:4/000000000000/input-queue\n\
             export AWS_SECRET_ACCESS_KEY=local\n\
             export AWS_ENDPOINT_URL_SQS='http://127.0.0.1:4'\n\
             export EVENT_ID='json:join(`#`, [\"id\"])'\n\
             export EVENT_ID_PREFIX=''\n\
             export SINK='file:///tmp/a b'\n\
             # Delivered batches are in /tmp/a b\n",
        )
        .unwrap();
        let url = "http://127.0.0.1:4/000000000000/input-queue";
        assert_eq!(settings.value("INPUT_QUEUE_URL"), Some(url));
        assert_eq!(settings.value("SINK"), Some("file:///tmp/a b"));
        assert_eq!(settings.value("EVENT_ID"), Some("json:join(`#`, [\"id\"])"));
        assert_eq!(settings.value("EVENT_ID_PREFIX"), None, "it is empty");
        let shown: Vec<&str> = settings.shown().map(|(name, _)| name).collect();
        assert_eq!(
            shown,
            ["EVENT_ID", "EVENT_ID_PREFIX", "INPUT_QUEUE_URL", "SINK"],
            "neither secrets nor addresses are shown"
        );
    }

    #[test]
    fn a_line_that_is_no_variable_is_refused() {
        let error = read("this is no variable\n").unwrap_err();
        let expected = ", expected lines `export NAME='VALUE'`";
        assert!(error.starts_with("`FILE`: "), "{error}");
        assert!(error.ends_with(expected), "{error}");
    }
}
