//! Reads the settings of a sink as the batch-processor does.

use shared::config::{Reader, Settings};
use sinks::SinkConfig;
use sinks::columns_source::with_columns;

use crate::failure::Failure;

/// Reads the configuration of a sink from the settings that `lookup` finds, its columns from where these say.
///
/// # Errors
/// [`Failure::Usage`] with every problem.
pub async fn sink_config(
    lookup: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<SinkConfig, Failure> {
    let config = with_columns(Settings::new(lookup, None), |settings| {
        let mut reader = Reader::of(settings);
        let config = SinkConfig::read(&mut reader);
        reader.finish(Some(config))
    });
    config
        .await
        .map_err(|error| Failure::Usage(error.to_string()))
}
