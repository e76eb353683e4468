//! The pages and verbs of a stack for a browser.
//!
//! A page shows what a command found, from its JSON. A verb is a command: its form is made from the definition of the command
//! line, and its words are given to that. So the console decides nothing, and knows no rule of its own.

mod batch_page;
mod event_page;
mod overview_page;
mod runbook;
mod values;
mod verbs;

use std::sync::Arc;
use std::time::Duration;

use console::{Address, Content, Course, Operator, Page, Plan, Problem, Site, Text, Verb};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::of_stack;
use crate::outcome::{Kept, Output};
use crate::overview::{History, Look, Overview};
use crate::service::Service;

/// How many batches a page shows. The record of each is read.
const BATCHES_SHOWN: usize = 50;

/// The time between two looks at the progress of a command.
const PROGRESS_EVERY: Duration = Duration::from_millis(300);

/// The console of a stack.
pub struct StackSite {
    /// What pages are read with.
    service: Arc<Service>,
    /// What verbs are done with.
    verbs: Arc<Service>,
    look: tokio::sync::Mutex<Look>,
}

impl StackSite {
    /// Returns the console of a stack.
    pub fn new(service: Arc<Service>, verbs: Arc<Service>) -> StackSite {
        StackSite {
            service,
            verbs,
            look: tokio::sync::Mutex::default(),
        }
    }

    /// Runs a command that only looks; returns what it found, as JSON.
    async fn found(&self, words: &[String]) -> Result<Value, Problem> {
        let kept = Arc::<Kept>::default();
        let ended = StackSite::start(&self.service, words, Interrupt::never(), &kept).await;
        match ended {
            Ok(Ok(_)) => Ok(kept.value().unwrap_or_default()),
            Ok(Err(failure)) => Err(problem(&failure)),
            Err(panic) => Err(Problem::Failed(panic.to_string())),
        }
    }

    /// Starts a command on a thread of its own, because commands do not change threads.
    fn start(
        service: &Arc<Service>,
        words: &[String],
        interrupt: Interrupt,
        kept: &Arc<Kept>,
    ) -> JoinHandle<Result<Done, Failure>> {
        let (service, words) = (Arc::clone(service), words.to_vec());
        let kept = Arc::clone(kept);
        tokio::task::spawn_blocking(move || {
            let command = of_stack::run_words(&service, &words, &interrupt, Output::Kept(&kept));
            Handle::current().block_on(command)
        })
    }

    async fn batches(&self, address: &Address) -> Result<Page, Problem> {
        let mut words = vec!["list".to_owned(), format!("--limit={BATCHES_SHOWN}")];
        let status = address.field("status").unwrap_or_default();
        if status.contains("complete") {
            return Err(Problem::Wrong(format!(
                "`status`: got `{status}`: complete batches are listed on the command line only, which reads the whole table for them"
            )));
        }
        for option in batch_page::FILTERS {
            let value = address.field(option);
            words.extend(value.map(|value| format!("--{option}={value}")));
        }
        let found = self.found(&words).await?;
        Ok(batch_page::list(&found, address, self.service.now()))
    }

    async fn batch(&self, address: &Address) -> Result<Page, Problem> {
        let id = address.field("id");
        let id =
            id.ok_or_else(|| Problem::Wrong("`id`: missing: expected a batch id".to_owned()))?;
        let found = self.found(&words(&["show", "--", id])).await?;
        Ok(batch_page::one(&found, self.service.now()))
    }

    async fn event(&self, address: &Address) -> Result<Page, Problem> {
        let Some(id) = address.field("id") else {
            return Ok(event_page::search(address));
        };
        let mut words = vec!["find".to_owned()];
        words.extend(address.field("exact").map(|_| "--exact".to_owned()));
        words.extend(
            address
                .field("source")
                .map(|source| format!("--source={source}")),
        );
        words.extend(["--".to_owned(), id.to_owned()]);
        let found = self.found(&words).await?;
        Ok(event_page::one(&found, address, self.service.now()))
    }

    async fn dedup(&self) -> Result<Page, Problem> {
        let page = Page::new("Dedup index");
        match self.found(&words(&["dedup", "status"])).await {
            Ok(found) => {
                let page = page.with(
                    "",
                    Content::Facts(values::facts(&found, self.service.now())),
                );
                Ok(page.with(
                    "",
                    Content::Verbs(verbs::links(&["drop-run", "prime", "rebuild-dedup"])),
                ))
            }
            Err(Problem::NotFound(reason)) => {
                Ok(page.with("", Content::Notes(vec![Text::from(reason)])))
            }
            Err(problem) => Err(problem),
        }
    }

    /// Looks at the stack once, and makes a page of that.
    async fn seen(&self, page: impl Fn(&Overview, &History) -> Page) -> Result<Page, Problem> {
        let mut look = self.look.lock().await;
        let overview = look.look(&self.service).await;
        let overview = overview.map_err(|failure| problem(&failure))?;
        Ok(page(&overview, look.history()))
    }
}

fn words(words: &[&str]) -> Vec<String> {
    Vec::from_iter(words.iter().map(|word| (*word).to_owned()))
}

fn problem(failure: &Failure) -> Problem {
    match failure {
        Failure::NotFound(text) => Problem::NotFound(text.clone()),
        Failure::Usage(text) => Problem::Wrong(text.clone()),
        other => Problem::Failed(other.to_string()),
    }
}

#[console::async_trait]
impl Site for StackSite {
    fn name(&self) -> String {
        self.service.settings.name.clone()
    }

    fn menu(&self) -> Vec<(String, String)> {
        let menu = [
            ("/overview", "Overview"),
            ("/batches", "Batches"),
            ("/event", "Event"),
            ("/messages", "Dead letters and quarantine"),
            ("/dedup", "Dedup index"),
        ];
        Vec::from_iter(menu.map(|(path, name)| (path.to_owned(), name.to_owned())))
    }

    async fn page(&self, address: &Address) -> Result<Page, Problem> {
        match address.path.as_str() {
            "/overview" => self.seen(overview_page::page).await,
            "/batches" => self.batches(address).await,
            "/batch" => self.batch(address).await,
            "/event" => self.event(address).await,
            "/messages" => self.seen(overview_page::messages).await,
            "/dedup" => self.dedup().await,
            "/runbook" => runbook::page(address),
            other => Err(Problem::NotFound(format!(
                "`{other}`: there is no such page"
            ))),
        }
    }

    fn verbs(&self) -> Vec<Verb> {
        verbs::all()
    }

    async fn plan(
        &self,
        verb: &str,
        fields: &Address,
        course: &dyn Course,
    ) -> Result<Plan, Problem> {
        let words = verbs::words(verb, fields)?;
        let (kept, done) = self.run(&words, course).await?;
        let found = kept.value().unwrap_or_default();
        let shown = format!("$ batchctl {}\n{}", words.join(" "), shown(&kept));
        let steps = match done {
            // Nothing would be done, or not everything was shown.
            Done::NotFound | Done::Stopped(_) => Vec::new(),
            Done::Yes | Done::OnlyShown => verbs::steps(verb, words, &found),
        };
        Ok(Plan {
            verb: verb.to_owned(),
            shown,
            steps,
            seen: verbs::seen(verb, &found),
        })
    }

    async fn carry_out(
        &self,
        plan: &Plan,
        operator: &Operator,
        course: &dyn Course,
    ) -> Result<String, Problem> {
        if !plan.seen.is_empty() {
            let (kept, _) = self.run(&plan.steps, course).await?;
            if verbs::seen(&plan.verb, &kept.value().unwrap_or_default()) != plan.seen {
                let why = "nothing is done: what it would do has changed since it was shown; see what it would do now";
                return Err(Problem::Failed(why.to_owned()));
            }
        }
        let words = verbs::confirmed(plan, operator);
        let (kept, _) = self.run(&words, course).await?;
        Ok(shown(&kept))
    }
}

impl StackSite {
    /// Runs a command as a job.
    ///
    /// # Errors
    /// Its failure, after what it printed.
    async fn run(
        &self,
        words: &[String],
        course: &dyn Course,
    ) -> Result<(Arc<Kept>, Done), Problem> {
        let kept = Arc::<Kept>::default();
        let (stop, interrupt) = Interrupt::manual();
        let mut command = StackSite::start(&self.verbs, words, interrupt, &kept);
        let mut stopped = course.stopped();
        let mut is_stopped = false;
        let ended = loop {
            tokio::select! {
                ended = &mut command => break ended,
                () = &mut stopped, if !is_stopped => {
                    is_stopped = true;
                    stop.stop();
                }
                () = tokio::time::sleep(PROGRESS_EVERY) => {
                    course.show(kept.progress().unwrap_or_default());
                }
            }
        };
        match ended {
            Err(panic) => Err(Problem::Failed(panic.to_string())),
            Ok(Ok(done)) => Ok((kept, done)),
            Ok(Err(failure)) => {
                let text = format!("{}{failure}", shown(&kept));
                Err(match problem(&failure) {
                    Problem::NotFound(_) => Problem::NotFound(text),
                    Problem::Wrong(_) => Problem::Wrong(text),
                    Problem::Failed(_) => Problem::Failed(text),
                })
            }
        }
    }
}

/// Returns everything that a command printed.
fn shown(kept: &Kept) -> String {
    let mut text = String::new();
    for line in kept.told() {
        text += &line;
        text.push('\n');
    }
    text + &kept.text()
}
