//! The command `loadgen`: see `loadgen --help`.
//!
//! Writes one JSON object to standard output, and everything else to standard error.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use loadgen::{ResumeFileError, ScheduleError, SendError, WorkloadError};
use stack::{OpenError, SettingsError};

use commands::{FAILED, USAGE, audit, burst, deliver, plan, report, send};

/// Sends a burst of events to a queue, and audits the delivered files.
///
/// Both commands compute the same burst from the same workload options, so give both the same ones.
/// Event ids depend on the seed: use a new seed for every burst within a dedup window.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send a burst to a stack, watch it until it is delivered, and audit the sink; prints a summary.
    ///
    /// Region, credentials and endpoints are those of `--env-file`, or are found as the AWS CLI does. Ctrl-C ends the burst with a
    /// summary, and with a file to continue from. Exit codes: 0 if everything was delivered once; 1 if not, or if the stack
    /// cannot be reached; 2 if the options are wrong; 130 or 143 if Ctrl-C or SIGTERM ended it before everything was delivered.
    Burst(Box<burst::BurstArgs>),
    /// Send a burst; prints one JSON object when all messages are in the queue.
    ///
    /// Region, credentials and AWS_ENDPOINT_URL are read from the environment. A region or endpoint
    /// that is not set there is taken from the queue URL. A request whose reply was lost is retried,
    /// which may put a message into the queue twice, under two SQS message ids: `resent_unsure` in
    /// the result counts such messages.
    ///
    /// Ctrl-C ends the burst with a summary of what was sent, and leaves a file that --resume continues from.
    ///
    /// Exit codes: 0 if the queue acknowledged every message; 1 if a message could not be sent; 2 if the options are wrong;
    /// 130 or 143 if Ctrl-C or SIGTERM stopped the burst.
    Send(send::SendArgs),
    /// Compare delivered files, <dir>/<batchId>/<part>.<ext>, with the burst; prints one JSON object.
    ///
    /// Exit codes: 0 if every event was delivered as often as it should be, unchanged, and nothing
    /// else was delivered; 1 if not; 2 if the options are wrong or a file cannot be read.
    Audit(audit::AuditArgs),
    /// Write what a service would deliver of the burst, to try `audit`.
    #[command(hide = true)]
    Deliver(deliver::DeliverArgs),
    /// Draw the record of a run, or of two runs to compare, as one HTML file; prints one JSON object with its path.
    Report(report::ReportArgs),
    /// Compute what a burst would do on AWS: batches, time, concurrency, throttles, what holds it up, price.
    ///
    /// Needs no account. Uncalibrated assumptions are printed with the plan. Exit codes: 0; 1 if `--search` finds
    /// nothing; 2 if options are wrong; all are reported at once.
    Plan(Box<plan::PlanArgs>),
}

fn main() -> ExitCode {
    let (outcome, code_of_errors) = match Cli::parse().command {
        Command::Burst(args) => (burst::run(&args), FAILED),
        Command::Send(args) => (send::run(&args), FAILED),
        Command::Audit(args) => (audit::run(&args), USAGE),
        Command::Deliver(args) => (deliver::run(&args), FAILED),
        Command::Report(args) => (report::run(&args), USAGE),
        Command::Plan(args) => (plan::run(&args), USAGE),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("loadgen failed to {error:#}");
        ExitCode::from(if is_usage(&error) {
            USAGE
        } else {
            code_of_errors
        })
    })
}

/// Returns whether an error is about the options, and not about what was done with them.
fn is_usage(error: &anyhow::Error) -> bool {
    let of_send = match error.downcast_ref::<SendError>() {
        Some(SendError::Concurrency(_) | SendError::Arrivals { .. } | SendError::State { .. }) => {
            true
        }
        Some(SendError::Unsent { .. }) | None => false,
    };
    let of_file = match error.downcast_ref::<ResumeFileError>() {
        Some(ResumeFileError::Write { .. }) | None => false,
        Some(_) => true,
    };
    let of_stack = error
        .downcast_ref::<OpenError>()
        .is_some_and(OpenError::is_usage)
        || error
            .downcast_ref::<SettingsError>()
            .is_some_and(SettingsError::is_usage);
    let of_options = error.is::<WorkloadError>() || error.is::<ScheduleError>();
    of_send || of_file || of_stack || of_options
}
