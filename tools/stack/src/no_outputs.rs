//! Has no CloudFormation: the cargo feature `cloudformation` is off.

use crate::connection::Connection;
use crate::open_error::OpenError;
use crate::settings::Settings;

/// Has the signature of `outputs::open_stack`.
///
/// # Errors
/// Always [`OpenError::NoCloudFormation`].
pub(crate) async fn open_stack(_: &str) -> Result<(Settings, Connection), OpenError> {
    Err(OpenError::NoCloudFormation)
}
