//! The arguments by which a command names its stack.

use std::path::PathBuf;

use clap::Args;

use crate::connection::Connection;
#[cfg(not(feature = "cloudformation"))]
use crate::no_outputs::open_stack;
use crate::open_error::OpenError;
#[cfg(feature = "cloudformation")]
use crate::outputs::open_stack;
use crate::settings::Settings;
use crate::variables::read_env_file;

/// The stack of a command: a CloudFormation stack, a file of variables, or the variables of the process.
#[derive(Args, Clone, Debug, Default)]
pub struct StackArgs {
    /// Name of the CloudFormation stack, made by the SAM template or the CDK construct
    #[arg(long, global = true, value_name = "NAME")]
    pub stack: Option<String>,
    /// File of variables in place of a stack, as `batch-local serve --env-file` writes it [default: the variables of the environment]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "stack")]
    pub env_file: Option<PathBuf>,
}

impl StackArgs {
    /// Returns the settings of the stack, and clients of its services. Region, credentials and endpoints are those of the
    /// file; those that it does not have are found as [`Connection::new`] does.
    ///
    /// # Errors
    /// The file cannot be read; there is no region, or there are no credentials; there is no such stack, the caller may not
    /// read it, or the cargo feature `cloudformation` is off.
    pub async fn open(&self) -> Result<(Settings, Connection), OpenError> {
        if let Some(name) = &self.stack {
            return open_stack(name).await;
        }
        let settings = match &self.env_file {
            Some(path) => {
                let name = format!("`{}`", path.display());
                Settings::of_variables(name, read_env_file(path)?)
            }
            None => Settings::of_environment(),
        };
        let connection = Connection::of(&settings).await?;
        Ok((settings, connection))
    }
}

#[cfg(all(test, not(feature = "cloudformation")))]
mod tests {
    use super::*;

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
