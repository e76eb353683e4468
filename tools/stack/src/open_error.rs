//! Why a stack cannot be opened.

use crate::connection::ConnectionError;
use crate::settings::SettingsError;

/// Why a stack cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The cargo feature `cloudformation` is off.
    #[error(
        "`--stack`: the executable was built without the cargo feature `cloudformation` of `unique-event-stack`: give `--env-file`, \
         or build it without `--no-default-features`"
    )]
    NoCloudFormation,
}

impl OpenError {
    /// Returns whether the arguments or the environment are wrong, and no service refused a request.
    pub fn is_usage(&self) -> bool {
        match self {
            OpenError::Settings(error) => error.is_usage(),
            OpenError::Connection(ConnectionError::NoRegion) | OpenError::NoCloudFormation => true,
            OpenError::Connection(ConnectionError::Credentials(_)) => false,
        }
    }
}
