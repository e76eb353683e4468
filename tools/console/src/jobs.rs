//! Jobs: what verbs would do, and what they do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::watch;
use uuid::Uuid;

use crate::site::{Address, Course, Operator, Plan, Problem, Site};

/// The most jobs that are remembered; those that ended first are forgotten first.
const JOBS_MAX: usize = 50;
/// The most jobs that run at once.
const RUNNING_MAX: usize = 4;

/// How long what was planned may be done: a page may be open for days.
const PLAN_LIFE: Duration = Duration::from_secs(900);

/// How a job stands.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    /// It runs, and is so far.
    Runs(String),
    /// It found out what a verb would do.
    Planned(Plan),
    /// It did something.
    Done(String),
    /// It failed.
    Failed(Problem),
}

/// A job.
pub(crate) struct Job {
    /// What is done, by whom and why.
    pub title: String,
    /// When it began, in its order.
    number: u64,
    began: Instant,
    standing: watch::Sender<Standing>,
    /// Whether somebody has it stopped.
    stop: watch::Sender<bool>,
    /// What was planned may be done once.
    is_used: Mutex<bool>,
}

/// The jobs of a console, by their ids.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<BTreeMap<Uuid, Arc<Job>>>);

impl Job {
    /// Returns how the job stands.
    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Returns how the job stands, as it changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    pub(crate) fn runs(&self) -> bool {
        matches!(*self.standing.borrow(), Standing::Runs(_))
    }

    /// Returns whether what it planned was done, or is being done.
    pub(crate) fn is_used(&self) -> bool {
        *self.is_used.lock().expect("no panic")
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }
}

#[async_trait]
impl Course for Job {
    fn show(&self, progress: String) {
        self.standing.send_if_modified(|standing| match standing {
            Standing::Runs(before) if *before != progress => {
                *before = progress;
                true
            }
            _ => false,
        });
    }

    async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // The job has the sender.
        let _ = stop.wait_for(|is_stopped| *is_stopped).await;
    }
}

impl Jobs {
    pub(crate) fn get(&self, id: Uuid) -> Option<Arc<Job>> {
        self.0.lock().expect("no panic").get(&id).cloned()
    }

    /// Returns the jobs, the newest first.
    pub(crate) fn all(&self) -> Vec<(Uuid, Arc<Job>)> {
        let jobs = self.0.lock().expect("no panic");
        let mut all = Vec::from_iter(jobs.iter().map(|(id, job)| (*id, Arc::clone(job))));
        all.sort_by_key(|(_, job)| std::cmp::Reverse(job.number));
        all
    }

    /// Finds out what a verb would do; if the verb does not ask, does it.
    ///
    /// # Errors
    /// Too many jobs run.
    pub(crate) fn plan(
        &self,
        site: &Arc<dyn Site>,
        verb: &str,
        fields: Address,
        asks: bool,
    ) -> Result<Uuid, Problem> {
        let (site, verb) = (Arc::clone(site), verb.to_owned());
        let title = match asks {
            true => format!("What {verb} would do"),
            false => verb.clone(),
        };
        self.start(title, async move |job: Arc<Job>| {
            let plan = site.plan(&verb, &fields, &*job).await?;
            match asks {
                true => Ok(Standing::Planned(plan)),
                false => {
                    let nobody = Operator {
                        by: String::new(),
                        why: String::new(),
                    };
                    site.carry_out(&plan, &nobody, &*job)
                        .await
                        .map(Standing::Done)
                }
            }
        })
    }

    /// Does what a job found out, once.
    ///
    /// # Errors
    /// The job found nothing to do, or it was done already.
    pub(crate) fn carry_out(
        &self,
        site: &Arc<dyn Site>,
        planned: &Job,
        operator: Operator,
    ) -> Result<Uuid, Problem> {
        let Standing::Planned(plan) = planned.standing() else {
            return Err(Problem::Wrong("the job has planned nothing".to_owned()));
        };
        if plan.steps.is_empty() {
            return Err(Problem::Wrong("there is nothing to do".to_owned()));
        }
        if planned.began.elapsed() > PLAN_LIFE {
            return Err(Problem::Wrong(
                "it was shown more than 15 minutes ago; see what it would do now".to_owned(),
            ));
        }
        let mut is_used = planned.is_used.lock().expect("no panic");
        if *is_used {
            return Err(Problem::Wrong(
                "it was done already; see what it would do now".to_owned(),
            ));
        }
        let site = Arc::clone(site);
        let title = format!("{}, by {}: {}", plan.verb, operator.by, operator.why);
        let id = self.start(title, async move |job: Arc<Job>| {
            site.carry_out(&plan, &operator, &*job)
                .await
                .map(Standing::Done)
        })?;
        *is_used = true;
        Ok(id)
    }

    fn start<W>(&self, title: String, work: impl FnOnce(Arc<Job>) -> W) -> Result<Uuid, Problem>
    where
        W: Future<Output = Result<Standing, Problem>> + Send + 'static,
    {
        let mut jobs = self.0.lock().expect("no panic");
        if jobs.values().filter(|job| job.runs()).count() >= RUNNING_MAX {
            return Err(Problem::Failed(format!(
                "{RUNNING_MAX} jobs run; wait for one to end"
            )));
        }
        let mut ended: Vec<(u64, Uuid)> = jobs
            .iter()
            .filter(|(_, job)| !job.runs())
            .map(|(id, job)| (job.number, *id))
            .collect();
        ended.sort_unstable();
        for (_, id) in ended
            .into_iter()
            .take((jobs.len() + 1).saturating_sub(JOBS_MAX))
        {
            jobs.remove(&id);
        }
        let number = jobs.values().map(|job| job.number).max().unwrap_or(0) + 1;
        let job = Arc::new(Job {
            title,
            number,
            began: Instant::now(),
            standing: watch::Sender::new(Standing::Runs(String::new())),
            stop: watch::Sender::new(false),
            is_used: Mutex::new(false),
        });
        let id = Uuid::new_v4();
        jobs.insert(id, Arc::clone(&job));
        let work = work(Arc::clone(&job));
        tokio::spawn(async move {
            // A panic must not leave a job that runs for ever.
            let ended = tokio::spawn(work).await;
            let ended = ended.unwrap_or_else(|panic| Err(Problem::Failed(panic.to_string())));
            job.standing
                .send_replace(ended.unwrap_or_else(Standing::Failed));
        });
        Ok(id)
    }
}
