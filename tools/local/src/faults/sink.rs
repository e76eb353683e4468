//! Makes a directory sink unwritable during its outages.
//!
//! The sink writes through a symbolic link. The link points to the directory, and during an outage to a file, so that every
//! write fails. It is replaced atomically, and the directory itself is not touched.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tokio::task::JoinHandle;

use super::outages::{Outage, Timeline};

/// The link and the task that switches it. Dropping this stops the task.
#[derive(Debug)]
pub struct SinkGate {
    link: PathBuf,
    switching: JoinHandle<()>,
}

/// The link and its targets.
#[derive(Clone, Debug)]
struct SinkLink {
    link: PathBuf,
    directory: PathBuf,
    /// The file to which the link points during an outage.
    obstacle: PathBuf,
}

impl SinkGate {
    /// Creates a link to `directory` below `work`, and starts a task that switches it at the beginning and end of each
    /// outage.
    pub fn start(
        directory: &Path,
        work: &Path,
        outages: &[Outage],
        timeline: Arc<Timeline>,
    ) -> anyhow::Result<SinkGate> {
        let sink = SinkLink {
            link: work.join("sink"),
            directory: directory.to_owned(),
            obstacle: work.join("sink-is-down"),
        };
        let failed = || format!("make a link to `{}`", directory.display());
        fs::create_dir_all(directory).with_context(failed)?;
        fs::create_dir_all(work).with_context(failed)?;
        fs::write(&sink.obstacle, "the sink is down\n").with_context(failed)?;
        let down_at_once = outages.first().is_some_and(|outage| outage.at.is_zero());
        sink.switch(down_at_once).with_context(failed)?;
        let link = sink.link.clone();
        let outages = outages.to_vec();
        let switching = tokio::spawn(async move {
            let switches = async {
                for outage in outages {
                    for (at, down) in [(outage.at, true), (outage.end(), false)] {
                        timeline.wait_until(at).await;
                        sink.switch_or_complain(down);
                    }
                }
            };
            tokio::select! {
                () = switches => {}
                () = timeline.until_outages_end() => sink.switch_or_complain(false),
            }
        });
        Ok(SinkGate { link, switching })
    }

    /// Returns the link, through which the sink must write.
    pub fn path(&self) -> &Path {
        &self.link
    }
}

impl SinkLink {
    fn switch_or_complain(&self, down: bool) {
        if let Err(error) = self.switch(down) {
            let link = self.link.display();
            eprintln!("error: link `{link}`: not switched: {error}");
        }
    }

    /// Points the link to the obstacle if the sink is `down`, else to the directory.
    fn switch(&self, down: bool) -> std::io::Result<()> {
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
        self.switching.abort();
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
        let sink = SinkLink {
            link: path("link"),
            directory: path("out"),
            obstacle: path("obstacle"),
        };
        fs::create_dir(&sink.directory).unwrap();
        fs::write(&sink.obstacle, "").unwrap();
        sink.switch(false).unwrap();
        fs::create_dir_all(sink.link.join("batch")).unwrap();
        fs::write(sink.link.join("batch/0.jsonl"), "part").unwrap();
        sink.switch(true).unwrap();
        let error = fs::create_dir_all(sink.link.join("other")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
        assert!(fs::File::open(sink.link.join("batch/0.jsonl")).is_err());
        sink.switch(false).unwrap();
        assert!(sink.link.join("batch/0.jsonl").is_file());
        assert!(sink.directory.join("batch/0.jsonl").is_file());
    }

    #[tokio::test]
    async fn an_outage_from_the_start_is_there_before_the_burst_begins_and_ends_in_time() {
        let temporary = tempfile::tempdir().unwrap();
        let out = temporary.path().join("deep/out");
        let timeline = Arc::new(Timeline::default());
        let outage = Outage {
            at: Duration::ZERO,
            duration: Duration::from_millis(30),
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

    #[tokio::test]
    async fn an_outage_that_is_ended_before_its_time_lets_the_directory_be_written() {
        let temporary = tempfile::tempdir().unwrap();
        let timeline = Arc::new(Timeline::default());
        let outages = ["0:3600", "7200:1"].map(|outage| outage.parse().unwrap());
        let (out, work) = (temporary.path().join("out"), temporary.path().join("work"));
        let gate = SinkGate::start(&out, &work, &outages, Arc::clone(&timeline)).unwrap();
        let batch = gate.path().join("batch");
        timeline.begin();
        assert!(fs::create_dir_all(&batch).is_err());
        timeline.end_outages();
        while fs::create_dir_all(&batch).is_err() {
            tokio::task::yield_now().await;
        }
        let actual = timeline.actual(outages[0]).unwrap();
        assert!(actual.duration < outages[0].duration, "{actual:?}");
        assert_eq!(timeline.actual(outages[1]), None);
    }
}
