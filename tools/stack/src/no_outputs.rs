//! Has no CloudFormation: the cargo feature `cloudformation` is off.

use crate::arguments::OpenError;
use crate::connection::Connection;
use crate::settings::Settings;

/// Has the signature of `outputs::open_stack`.
///
/// # Errors
/// Always [`OpenError::NoCloudFormation`].
pub(crate) async fn open_stack(_: &str) -> Result<(Settings, Connection), OpenError> {
    Err(OpenError::NoCloudFormation)
}

#[cfg(test)]
mod tests {
    use crate::arguments::{OpenError, StackArgs};

    #[tokio::test]
    async fn a_name_is_refused_with_the_reason() {
        let arguments = StackArgs {
            stack: Some("mine".to_owned()),
            env_file: None,
        };
        let error = arguments.open().await.map(|_| ()).unwrap_err();
        assert!(matches!(error, OpenError::NoCloudFormation) && error.is_usage());
        let words = "without the cargo feature `cloudformation`";
        assert!(error.to_string().contains(words), "{error}");
    }
}
