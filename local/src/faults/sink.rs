//! A sink that cannot be written to: where its directory should be, there is a file.
//!
//! The sink is told a link, which leads to the directory as a rule, and to a file while the sink is down. It is replaced
//! as a whole, so that no write meets anything in between, and what is in the directory stays where it is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tokio::task::JoinHandle;

use super::outages::{Outage, Timeline};

/// The link, while the run lasts.
#[derive(Debug)]
pub struct SinkGate {
    link: PathBuf,
    turning: JoinHandle<()>,
}

/// What the link may lead to.
#[derive(Clone, Debug)]
struct Ways {
    link: PathBuf,
    directory: PathBuf,
    obstacle: PathBuf,
}

impl SinkGate {
    /// Makes a link to `directory`, and what else there is to it, below `work`, and turns it as the outages say.
    ///
    /// # Errors
    /// When any of it cannot be written.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(
        directory: &Path,
        work: &Path,
        outages: &[Outage],
        timeline: Arc<Timeline>,
    ) -> anyhow::Result<SinkGate> {
        let ways = Ways {
            link: work.join("sink"),
            directory: directory.to_owned(),
            obstacle: work.join("sink-is-down"),
        };
        let failed = || format!("make a link to `{}`", directory.display());
        fs::create_dir_all(directory).with_context(failed)?;
        fs::create_dir_all(work).with_context(failed)?;
        fs::write(&ways.obstacle, "the sink is down\n").with_context(failed)?;
        let down_at_once = outages.first().is_some_and(|outage| outage.at.is_zero());
        ways.turn(down_at_once).with_context(failed)?;
        let link = ways.link.clone();
        let outages = outages.to_vec();
        let turning = tokio::spawn(async move {
            for outage in outages {
                for (at, down) in [(outage.at, true), (outage.end(), false)] {
                    timeline.reaches(at).await;
                    if let Err(error) = ways.turn(down) {
                        eprintln!("error: `{}` cannot be turned: {error}", ways.link.display());
                    }
                }
            }
        });
        Ok(SinkGate { link, turning })
    }

    /// Where the sink is to write.
    pub fn path(&self) -> &Path {
        &self.link
    }
}

impl Ways {
    fn turn(&self, down: bool) -> std::io::Result<()> {
        let to = match down {
            true => &self.obstacle,
            false => &self.directory,
        };
        let next = self.link.with_extension("next");
        symlink(to, &next)?;
        fs::rename(&next, &self.link)
    }
}

impl Drop for SinkGate {
    fn drop(&mut self) {
        self.turning.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_directory_cannot_be_written_while_the_sink_is_down_and_keeps_what_it_has() {
        let temporary = tempfile::tempdir().unwrap();
        let path = |name: &str| temporary.path().join(name);
        let ways = Ways {
            link: path("link"),
            directory: path("out"),
            obstacle: path("obstacle"),
        };
        fs::create_dir(&ways.directory).unwrap();
        fs::write(&ways.obstacle, "").unwrap();
        ways.turn(false).unwrap();
        fs::create_dir_all(ways.link.join("batch")).unwrap();
        fs::write(ways.link.join("batch/0.jsonl"), "part").unwrap();
        ways.turn(true).unwrap();
        let error = fs::create_dir_all(ways.link.join("other")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
        assert!(fs::File::open(ways.link.join("batch/0.jsonl")).is_err());
        ways.turn(false).unwrap();
        assert!(ways.link.join("batch/0.jsonl").is_file());
        assert!(ways.directory.join("batch/0.jsonl").is_file());
    }

    #[tokio::test]
    async fn an_outage_from_the_start_is_there_before_the_burst_begins_and_ends_in_time() {
        let temporary = tempfile::tempdir().unwrap();
        let out = temporary.path().join("deep/out");
        let timeline = Arc::new(Timeline::default());
        let outage = Outage {
            at: Duration::ZERO,
            time: Duration::from_millis(30),
        };
        let work = temporary.path().join("work");
        let gate = SinkGate::start(&out, &work, &[outage], Arc::clone(&timeline)).unwrap();
        let batch = gate.path().join("batch");
        assert!(fs::create_dir_all(&batch).is_err());
        timeline.begin();
        while fs::create_dir_all(&batch).is_err() {
            tokio::task::yield_now().await;
        }
        assert!(timeline.elapsed() >= outage.end());
        assert!(out.join("batch").is_dir());
    }
}
