//! The command line of `batch-local`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use loadgen::StopSignals;

use crate::burst::{self, BurstArgs};
use crate::interrupt::{self, SoFar};
use crate::options::StackArgs;
use crate::stack::Stack;
use crate::traces::picture;
use crate::{console, deploy};

/// Runs the whole service on one machine, without an AWS account and without Docker
#[derive(Parser)]
#[command(name = "batch-local", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    burst: BurstCommand,
}

#[derive(Subcommand)]
enum Command {
    /// Sends a burst of messages, waits until the last batch is complete, and audits what was delivered (the default)
    Burst(BurstCommand),
    /// Runs the service until Ctrl-C or SIGTERM, and prints the variables that another client needs
    Serve(StackArgs),
    /// Draws a delivery of a run with --traces, and what it follows from; prints an SVG
    TracePicture {
        /// The file that --traces wrote
        file: PathBuf,
    },
    /// Runs one of the functions as a Lambda bootstrap; only the Lambda host uses this
    #[command(hide = true, subcommand)]
    Bootstrap(Function),
}

impl Command {
    /// Returns why the flags do not go together, if they do not.
    fn contradiction(&self) -> Option<String> {
        match self {
            Command::Burst(command) => command.stack.contradiction(),
            Command::Serve(stack) => stack.contradiction(),
            Command::TracePicture { .. } | Command::Bootstrap(_) => None,
        }
    }
}

#[derive(Args)]
struct BurstCommand {
    #[command(flatten)]
    burst: BurstArgs,
    #[command(flatten)]
    stack: StackArgs,
}

#[derive(Subcommand)]
enum Function {
    Aggregator,
    BatchProcessor,
}

/// Runs the command line. Exits with 0 if the burst passed the audit, with 1 if it did not, with 2 if the command could not
/// run, and with 130 or 143 if SIGINT or SIGTERM ended it.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = cli.command.unwrap_or(Command::Burst(cli.burst));
    if let Some(contradiction) = command.contradiction() {
        Cli::command()
            .error(ErrorKind::ArgumentConflict, contradiction)
            .exit();
    }
    let done = match command {
        Command::Bootstrap(function) => bootstrap(&function),
        Command::Burst(command) => on_threads(burst::run(command.burst, command.stack)),
        Command::TracePicture { file } => picture(&file).map(|svg| {
            print!("{svg}");
            ExitCode::SUCCESS
        }),
        Command::Serve(stack) => on_threads(serve(stack)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

/// Runs a function as on AWS: in one thread, with nothing else in the process.
fn bootstrap(function: &Function) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = match function {
        Function::Aggregator => runtime.block_on(aggregator::run()),
        Function::BatchProcessor => runtime.block_on(batch_processor::run()),
    };
    ended.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(ExitCode::SUCCESS)
}

fn on_threads(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(work)
}

async fn serve(args: StackArgs) -> anyhow::Result<ExitCode> {
    let mut signals = StopSignals::new().context("wait for SIGINT and SIGTERM")?;
    let mut options = args.resolve()?;
    options.default_variable("MAX_SECONDARY_BATCHING_WINDOW", 5);
    options.tell_not_used();
    deploy::check_variables(&options)?;
    let env_file = args.env_file()?;
    let stack = tokio::select! {
        stack = Stack::start(&options) => Arc::new(stack?),
        signal = signals.next() => return Ok(signal.code().into()),
    };
    let console = console::serve_with_bursts(&stack).await?;
    // Standard output has the variables, which a shell may read.
    eprintln!("console     {}", console.address());
    let variables = stack.describe();
    let _env_file = env_file.map(|file| file.write(&variables)).transpose()?;
    println!("{variables}");
    let signal = tokio::select! {
        signal = signals.next() => signal,
        failure = stack.cold_start_failure() => {
            stack.stop().await;
            return Err(failure);
        }
    };
    tokio::select! {
        () = console.finish() => {}
        _ = signals.next() => {}
    }
    interrupt::stop(&stack, &mut signals).await;
    eprintln!("{}", SoFar::of(&stack, signal, None).await?);
    Ok(signal.code().into())
}
