//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stack::StackArgs;

use crate::commands::config::{self, ConfigArgs};
use crate::commands::dedup::{self, DedupCommand, DropRunArgs};
use crate::commands::discard::{self, DiscardArgs};
use crate::commands::find::{self, FindArgs};
use crate::commands::forget::{self, ForgetArgs};
use crate::commands::list::{self, ListArgs};
use crate::commands::pause::{self, PauseArgs, ResumeArgs};
use crate::commands::prime::{self, PrimeArgs};
use crate::commands::rebuild::{self, RebuildArgs};
use crate::commands::redrive::{self, RedriveArgs};
use crate::commands::rejects::{self, RejectsArgs};
use crate::commands::replay::{self, ReplayArgs};
use crate::commands::retry::{self, RetryArgs};
use crate::commands::show::{self, ShowArgs};
use crate::commands::tombstones::{self, TombstonesArgs};
use crate::commands::watch::{self, WatchArgs};
use crate::failure::{Done, Failure, exit_code};
use crate::interrupt::Interrupt;
use crate::outcome::Output;
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
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List batches, the oldest first
    List(ListArgs),
    /// Show one batch: its life, lease, counts, parts, error, and what operators did to it
    Show(ShowArgs),
    /// Tell what became of an event: claimed where, delivered when, remembered until when
    Find(FindArgs),
    /// Show counts and batches, again and again, until Ctrl-C
    Watch(WatchArgs),
    /// Have batches tried again now: in error, overdue, or waiting for their next try
    Retry(RetryArgs),
    /// Write the undelivered events of batches in error to files, and have the batches set aside
    Discard(DiscardArgs),
    /// Forget an event, so that any message of it is delivered again
    Forget(ForgetArgs),
    /// Have the index of the log remember events that were delivered before it knew them
    Prime(PrimeArgs),
    /// Have the lock table remember what the log remembers, before `BODIES` is `items` again
    Tombstones(TombstonesArgs),
    /// Show the index of the log, which remembers events if `BODIES` is `log:…`
    #[command(subcommand)]
    Dedup(DedupCommand),
    /// Take a run of the index out that cannot be read: messages of its events are delivered again
    DropRun(DropRunArgs),
    /// Make the index of the log anew, if its manifest or its list is lost
    RebuildDedup(RebuildArgs),
    /// Keep batches from the sink for a while
    Pause(PauseArgs),
    /// End a pause, and have the batches delivered that waited
    Resume(ResumeArgs),
    /// List the pauses, and the deliveries that began before them
    Pauses,
    /// Send the delivered parts of a batch to another sink once more, if it is one of the log
    Replay(ReplayArgs),
    /// Send dead letters, or messages of the quarantine, to the input queue, except those that were delivered after all
    Redrive(RedriveArgs),
    /// List rejected events with their reasons, and send those that were not claimed since to the input queue
    Rejects(RejectsArgs),
    /// Check a configuration file, print the schema of such files, or explain a setting; needs no stack
    Config(ConfigArgs),
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
        .with_writer(std::io::stderr)
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
    if let Command::Config(args) = &cli.command {
        return config::run(args, output).await;
    }
    let service = Service::open(&cli.stack, cli.config.as_deref()).await?;
    let interrupt = || Interrupt::listen().map_err(Failure::Signals);
    run_command(&service, &cli.command, &interrupt, output).await
}

/// Runs a command on a stack, and prints nothing. `words` are what comes after `batchctl`.
///
/// # Panics
/// The words are no command.
pub async fn run_on(service: &Service, words: &[String]) -> Result<Done, Failure> {
    let words = std::iter::once("batchctl").chain(words.iter().map(String::as_str));
    let cli = Cli::try_parse_from(words).expect("the words are a command");
    let interrupt = || Ok(Interrupt::never());
    run_command(service, &cli.command, &interrupt, Output::Nothing).await
}

async fn run_command(
    service: &Service,
    command: &Command,
    interrupt: &dyn Fn() -> Result<Interrupt, Failure>,
    output: Output,
) -> Result<Done, Failure> {
    match command {
        Command::List(args) => list::run(service, args, output).await,
        Command::Show(args) => show::run(service, args, output).await,
        Command::Find(args) => find::run(service, args, output).await,
        Command::Watch(args) => watch::run(service, args, output).await,
        Command::Retry(args) => retry::run(service, args, &interrupt()?, output).await,
        Command::Discard(args) => discard::run(service, args, &interrupt()?, output).await,
        Command::Forget(args) => forget::run(service, args, output).await,
        Command::Prime(args) => prime::run(service, args, output).await,
        Command::Tombstones(args) => tombstones::run(service, args, output).await,
        Command::Dedup(DedupCommand::Status) => dedup::status(service, output).await,
        Command::DropRun(args) => dedup::drop_run(service, args, &interrupt()?, output).await,
        Command::RebuildDedup(args) => rebuild::run(service, args, &interrupt()?, output).await,
        Command::Pause(args) => pause::pause(service, args, &interrupt()?, output).await,
        Command::Resume(args) => pause::resume(service, args, &interrupt()?, output).await,
        Command::Pauses => pause::list(service, output).await,
        Command::Replay(args) => replay::run(service, args, &interrupt()?, output).await,
        Command::Redrive(args) => redrive::run(service, args, &interrupt()?, output).await,
        Command::Rejects(args) => rejects::run(service, args, &interrupt()?, output).await,
        Command::Config(args) => config::run(args, output).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_all_commands_go_together() {
        command().debug_assert();
    }

    fn error_of(words: &[&str]) -> Option<String> {
        let parsed = Cli::try_parse_from(["batchctl"].iter().chain(words));
        parsed.err().map(|error| error.to_string())
    }

    #[test]
    fn what_must_be_selected_is_named_with_the_word_for_all() {
        let error = error_of(&["redrive", "--from", "dead-letters"]).unwrap();
        assert!(error.contains("<--where <JMESPATH>|--all>"), "{error}");
        for verb in [&["pause", "--for", "1h"][..], &["resume"]] {
            let error = error_of(verb).unwrap();
            let scope = "<--source <ARN>|--key <KEY>|--all>";
            assert!(error.contains(scope), "{error}");
            let parsed = |more: &[&str]| error_of(&[verb, more].concat()).is_none();
            assert!(parsed(&["--source", "arn:q", "--key", "k"]) && parsed(&["--all"]));
            assert!(!parsed(&["--all", "--key", "k"]));
        }
    }

    #[test]
    fn a_redrive_needs_a_filter_or_the_word_all() {
        let parsed = |more: &[&str]| {
            error_of(&[&["redrive", "--from", "dead-letters"], more].concat()).is_none()
        };
        assert!(!parsed(&[]));
        assert!(parsed(&["--all"]));
        assert!(parsed(&["--where", "body.a == 'b'"]));
        assert!(!parsed(&["--where", "body["]));
        assert!(!parsed(&["--all", "--where", "body"]));
    }
}
