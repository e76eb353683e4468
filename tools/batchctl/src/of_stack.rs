//! The commands of a stack, and what runs them from words: another program does so too.

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::answers::{self, AnswersArgs};
use crate::commands::approve::{self, ApproveArgs};
use crate::commands::dedup::{self, DedupCommand, DropRunArgs};
use crate::commands::discard::{self, DiscardArgs};
use crate::commands::find::{self, FindArgs};
use crate::commands::forget::{self, ForgetArgs};
use crate::commands::list::{self, ListArgs};
use crate::commands::pause::{self, PauseArgs, ResumeArgs};
use crate::commands::preview::{self, PreviewArgs};
use crate::commands::prime::{self, PrimeArgs};
use crate::commands::prove::{self, ProveArgs};
use crate::commands::rebuild::{self, RebuildArgs};
use crate::commands::redrive::{self, RedriveArgs};
use crate::commands::rejects::{self, RejectsArgs};
use crate::commands::replay::{self, ReplayArgs};
use crate::commands::retry::{self, RetryArgs};
use crate::commands::show::{self, ShowArgs};
use crate::commands::tombstones::{self, TombstonesArgs};
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::outcome::Output;
use crate::service::Service;

/// A command with its options, and nothing else that is said on the command line.
#[derive(Parser)]
#[command(name = "batchctl", disable_help_flag = true)]
struct Words {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// List batches, the oldest first
    List(ListArgs),
    /// Show one batch: its life, lease, counts, parts, error, and what operators did to it
    Show(ShowArgs),
    /// Tell what became of an event: claimed where, delivered when, remembered until when
    Find(FindArgs),
    /// Write a proof that an event was delivered in some part, or in none, for `verify-proof`
    Prove(ProveArgs),
    /// Show what the consumer answered about a batch, or the batches with events that are awaited or silent
    Answers(AnswersArgs),
    /// Render the next part of a batch as the sink gets it, with sums, rejects and the hash, and send it nowhere
    Preview(PreviewArgs),
    /// Have batches delivered that wait for approval, because they have more events than `APPROVE_ABOVE`
    Approve(ApproveArgs),
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
}

/// Returns the definition of the commands.
pub fn definition() -> clap::Command {
    Words::command()
}

/// Runs a command on a stack, and prints nothing. `words` are what comes after `batchctl`.
///
/// # Errors
/// As [`run_words`].
pub async fn run_on(service: &Service, words: &[String]) -> Result<Done, Failure> {
    run_words(service, words, &Interrupt::never(), Output::Nothing).await
}

/// Runs a command on a stack that another program has opened. `words` are what comes after `batchctl`, without options that name a
/// stack.
///
/// The first signal of `interrupt` ends a command after what is under way, if it can say how far it got, and others at once. The future must stay on its
/// thread.
///
/// # Errors
/// [`Failure::Usage`] if the words are no command of a stack.
pub async fn run_words(
    service: &Service,
    words: &[String],
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let command = command_of(words)?;
    let of_command = || Ok(interrupt.clone());
    let ended = run_command(service, &command, &of_command, output);
    if command.takes_signals() {
        return ended.await;
    }
    tokio::select! {
        biased;
        ended = ended => ended,
        () = interrupt.signalled() => Err(Failure::GivenUp),
    }
}

fn command_of(words: &[String]) -> Result<Command, Failure> {
    let words = std::iter::once("batchctl").chain(words.iter().map(String::as_str));
    // Displayed, the error has no colours.
    let parsed = Words::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let problem = text.strip_prefix("error: ").unwrap_or(&text);
        Failure::Usage(problem.trim_end().to_owned())
    })?;
    Ok(parsed.command)
}

impl Command {
    /// Returns whether the command ends early by itself at a signal. The others end at once.
    fn takes_signals(&self) -> bool {
        match self {
            Command::Approve(_)
            | Command::Retry(_)
            | Command::Discard(_)
            | Command::DropRun(_)
            | Command::RebuildDedup(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Replay(_)
            | Command::Redrive(_)
            | Command::Rejects(_) => true,
            Command::List(_)
            | Command::Show(_)
            | Command::Find(_)
            | Command::Prove(_)
            | Command::Answers(_)
            | Command::Preview(_)
            | Command::Forget(_)
            | Command::Prime(_)
            | Command::Tombstones(_)
            | Command::Dedup(_)
            | Command::Pauses => false,
        }
    }
}

/// Runs a command, which asks `interrupt` for signals if it listens to them.
pub async fn run_command(
    service: &Service,
    command: &Command,
    interrupt: &dyn Fn() -> Result<Interrupt, Failure>,
    output: Output<'_>,
) -> Result<Done, Failure> {
    match command {
        Command::List(args) => list::run(service, args, output).await,
        Command::Show(args) => show::run(service, args, output).await,
        Command::Find(args) => find::run(service, args, output).await,
        Command::Prove(args) => prove::run(service, args, output).await,
        Command::Answers(args) => answers::run(service, args, output).await,
        Command::Preview(args) => preview::run(service, args, output).await,
        Command::Approve(args) => approve::run(service, args, &interrupt()?, output).await,
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
    }
}

#[cfg(test)]
mod tests;
