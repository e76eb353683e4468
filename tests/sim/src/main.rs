//! Runs seeds of the simulation, or replays one.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{bail, ensure};
use clap::Parser;
use sim::bugs::{all, hunt, on_threads, try_stored};
use sim::plan::Plan;
use sim::scopes::{self, Close};

#[derive(Parser)]
#[command(about = "Simulates both functions under random faults that follow from a seed")]
struct Args {
    /// Number of seeds to run
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// First seed to run
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Replay one seed, and print everything that happens
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
    /// Switch on each planted bug in turn, with the seed that is stored for it
    #[arg(long, conflicts_with = "everything")]
    planted: bool,
    /// Run the planted bugs in N separate ranges of seeds instead, and print how many seeds it takes to catch each
    #[arg(long, value_name = "N", requires = "planted")]
    ranges: Option<u64>,
    /// Switch on only bugs whose name contains this text
    #[arg(long, default_value = "")]
    bug: String,
    /// Have delivery hours, a rate, periods, quotas, numbers and notices in every history
    #[arg(long)]
    everything: bool,
    /// Have batches of a log in every history
    #[arg(long, conflicts_with_all = ["everything", "planted"])]
    log: bool,
    /// Have 100 scopes of the log close a batch a minute for N minutes instead, all together and then spread, and print how often
    /// they met
    #[arg(long, value_name = "N", conflicts_with_all = ["everything", "planted", "log", "seed"])]
    scopes: Option<u64>,
    /// Number of threads; each runs whole histories
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

impl Args {
    fn plan(&self, seed: u64) -> Plan {
        match (self.everything, self.log) {
            (true, _) => Plan::with_everything(seed),
            (_, true) => Plan::of_log(seed),
            _ => Plan::of(seed),
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    if args.planted {
        return planted(args);
    }
    match (args.scopes, args.seed) {
        (Some(minutes), _) => scopes(minutes),
        (_, Some(seed)) => replay(args.plan(seed)),
        _ => seeds(args),
    }
}

fn scopes(minutes: u64) -> anyhow::Result<()> {
    for close in [Close::Together, Close::Spread] {
        let started = Instant::now();
        let history = sim::run_plan(scopes::minutes(minutes, close), false);
        if let Some(broken) = &history.broken {
            bail!("{close:?}: {broken}");
        }
        println!(
            "{close:?}: {} events in {} batches, complete at most {:.1} s after their close; {} commits, {} more refused; {} steps, {:.1} s",
            history.delivered,
            history.count("created"),
            history.late_max.as_secs_f64(),
            history.count("committed"),
            history.count("commit refused"),
            history.steps,
            started.elapsed().as_secs_f64(),
        );
    }
    Ok(())
}

fn replay(plan: Plan) -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .without_time()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    println!("{plan:#?}");
    let seed = plan.seed;
    let history = sim::run_plan(plan, true);
    for line in &history.trace {
        println!("{line}");
    }
    if let Some(broken) = history.broken {
        bail!("seed {seed}: {broken}");
    }
    println!("seed {seed}: {} steps, nothing broken", history.steps);
    Ok(())
}

fn seeds(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let run = |seed| {
        let history = sim::run_plan(args.plan(seed), false);
        let broken = history.broken.map(|broken| (seed, broken));
        (history.steps, history.delivered, broken)
    };
    let results = on_threads(args.first..args.first + args.seeds, args.threads, run);
    let elapsed = started.elapsed();
    let steps: u64 = results.iter().map(|(steps, ..)| steps).sum();
    let delivered: usize = results.iter().map(|(_, delivered, _)| delivered).sum();
    println!(
        "{} seeds from {}, {steps} steps ({} a history), {delivered} events delivered, {:.1} s, {:.0} histories a second",
        args.seeds,
        args.first,
        steps / args.seeds.max(1),
        elapsed.as_secs_f64(),
        args.seeds as f64 / elapsed.as_secs_f64(),
    );
    let broken = results.into_iter().filter_map(|(.., broken)| broken);
    let mut failed: Vec<_> = broken.collect();
    failed.sort_by_key(|(seed, _)| *seed);
    for (seed, broken) in failed.iter().take(20) {
        println!("seed {seed}: {broken}");
        let flag = match (args.everything, args.log) {
            (true, _) => " --everything",
            (_, true) => " --log",
            _ => "",
        };
        println!("  replay: cargo xtask sim --seed {seed}{flag}");
    }
    match failed.len() {
        0 => Ok(()),
        count => bail!("{count} of {} seeds broke a promise", args.seeds),
    }
}

fn planted(args: &Args) -> anyhow::Result<()> {
    // A bug may break an assertion of the functions. Such a panic counts as caught, so it is not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let mut bugs = all()?;
    bugs.retain(|bug| bug.contains(&args.bug));
    ensure!(
        !bugs.is_empty(),
        "`--bug`: no bug has `{}` in its name",
        args.bug
    );
    let missed = match args.ranges {
        Some(ranges) => table(&bugs, ranges, args.threads),
        None => try_stored(&bugs, args.threads)?,
    };
    ensure!(missed.is_empty(), "not caught: {missed:?}");
    println!("planted bugs: all that were tried are caught");
    Ok(())
}

fn table(bugs: &[&'static str], ranges: u64, threads: usize) -> Vec<&'static str> {
    let mut caught = on_threads(bugs.iter().copied(), threads, |bug| hunt(bug, ranges));
    caught.sort_by_key(|one| one.bug);
    println!("| planted bug | caught by (times of {ranges}) | median seeds | most seeds |");
    println!("|---|---|---|---|");
    for one in &caught {
        let mut by: Vec<_> = one.by.iter().collect();
        by.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let by = by.iter().map(|(name, times)| format!("{name} ({times})"));
        let by: Vec<String> = by.collect();
        let seeds = |seeds: Option<u64>| seeds.map_or("-".to_owned(), |n| n.to_string());
        let (by, median, most) = (by.join(", "), seeds(one.median()), seeds(one.most()));
        println!("| `{}` | {by} | {median} | {most} |", one.bug);
    }
    let missed = caught.iter().filter(|one| one.most().is_none());
    missed.map(|one| one.bug).collect()
}
