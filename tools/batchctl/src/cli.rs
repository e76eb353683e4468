//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stack::StackArgs;

use crate::commands::columns::{self, ColumnsArgs};
use crate::commands::config::{self, ConfigArgs};
use crate::commands::console::{self, ConsoleArgs};
use crate::commands::watch::{self, WatchArgs};
use crate::failure::{Done, Failure, exit_code};
use crate::interrupt::Interrupt;
use crate::of_stack::{Command, run_command};
use crate::outcome::Output;
use crate::screen;
use crate::service::Service;

/// Looks at the batches, events and dead letters of a running stack, and acts on them.
///
/// The stack is that of `--stack` or `--env-file`, or of the variables of the environment. Region, credentials and endpoints are
/// found as the AWS CLI does. Commands that change something only show what they would do, unless `--yes` is given.
///
/// Exit codes: 0 done; 1 a service failed, some of several changes did, or a configuration file has problems; 2 wrong options; 3 what was named does not exist;
/// 4 only shown, because `--yes` is missing; 5 refused, because the state does not allow it or has changed; 130 and 143 ended by
/// Ctrl-C or SIGTERM.
#[derive(Parser)]
#[command(name = "batchctl", version)]
struct Cli {
    #[command(flatten)]
    stack: StackArgs,
    /// The configuration file of the stack, if it is in the deployment package [default: where CONFIG says]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object; times are epoch milliseconds
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    line: Line,
}

#[derive(Subcommand)]
enum Line {
    #[command(flatten)]
    OfStack(Command),
    /// Show counts and batches, again and again, until Ctrl-C
    Watch(WatchArgs),
    /// Serve pages about the stack to a browser on this machine, until Ctrl-C
    Console(ConsoleArgs),
    /// Check a configuration file, print the schema of such files, or explain a setting; needs no stack
    Config(ConfigArgs),
    /// Make the columns of `fixed-width` from a COBOL copybook; needs no stack
    Columns(ColumnsArgs),
}

/// Returns the definition of the command line, against which the documents are checked.
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Runs the command line.
pub async fn main() -> ExitCode {
    let cli = Cli::parse();
    // What the adapters log: expired credentials end the process with a line of the log only.
    tracing_subscriber::fmt()
        .with_writer(screen::log)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_target(false)
        .without_time()
        .init();
    exit_code(run(cli).await)
}

async fn run(cli: Cli) -> Result<Done, Failure> {
    let output = match cli.json {
        true => Output::Json,
        false => Output::Text,
    };
    let (stack, config) = (&cli.stack, cli.config.as_deref());
    let interrupt = || Interrupt::listen().map_err(Failure::Signals);
    match &cli.line {
        Line::Config(args) => config::run(args, output).await,
        Line::Columns(args) => columns::run(args, output),
        Line::Console(args) => {
            let (settings, connection) = Service::find(stack, config).await?;
            console::run(settings, connection, args).await
        }
        Line::Watch(args) => watch::run(&Service::open(stack, config).await?, args, output).await,
        Line::OfStack(command) => {
            let service = Service::open(stack, config).await?;
            run_command(&service, command, &interrupt, output).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_all_commands_go_together() {
        command().debug_assert();
    }
}
