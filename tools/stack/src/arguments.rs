//! The arguments by which a command names its stack.

use std::path::PathBuf;

use clap::Args;

use crate::connection::{Connection, ConnectionError};
#[cfg(not(feature = "cloudformation"))]
use crate::no_outputs::open_stack;
#[cfg(feature = "cloudformation")]
use crate::outputs::open_stack;
use crate::settings::{Settings, SettingsError};
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
