//! What a console does: forms of verbs, what they would do, and jobs.

use std::sync::Arc;

use axum::extract::{Form, Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use futures::stream::{self, Stream};
use maud::{Markup, html};
use uuid::Uuid;

use crate::html;
use crate::jobs::{Job, Standing};
use crate::site::{Address, Operator, Problem, Verb};
use crate::state::{Shared, address_of, see};
use crate::words::{shown, shown_lines};

impl Shared {
    /// Returns a verb.
    ///
    /// # Errors
    /// Verbs are off, or there is no such verb.
    fn verb(&self, path: &str, name: &str) -> Result<Verb, Box<Response>> {
        self.allows_changes(path)?;
        let mut verbs = self.site.verbs().into_iter();
        let verb = verbs.find(|verb| verb.name == name);
        let unknown = || Problem::NotFound(format!("there is no verb `{name}`"));
        verb.ok_or_else(|| Box::new(self.problem(path, &unknown())))
    }

    /// Returns a job.
    ///
    /// # Errors
    /// Verbs are off, or there is no such job.
    fn job(&self, id: &str) -> Result<(Uuid, Arc<Job>), Box<Response>> {
        let path = format!("/jobs/{id}");
        self.allows_changes(&path)?;
        let found = id
            .parse()
            .ok()
            .and_then(|id: Uuid| Some((id, self.jobs.get(id)?)));
        let unknown = || Problem::NotFound("there is no such job, or it is forgotten".to_owned());
        found.ok_or_else(|| Box::new(self.problem("/jobs", &unknown())))
    }

    fn job_content(&self, id: Uuid, job: &Job) -> Markup {
        html! {
            h1 { (shown(&job.title)) }
            @match job.standing() {
                Standing::Runs(progress) => {
                    p role="status" { "It runs. " (shown(&progress)) }
                    (html::stop(&format!("/jobs/{id}/stop")))
                }
                Standing::Planned(plan) => {
                    pre tabindex="0" { (shown_lines(&plan.shown)) }
                    @if plan.steps.is_empty() {
                        p { "There is nothing to do." }
                    } @else if job.is_used() {
                        p { "It was done." }
                    } @else {
                        p { "It does this and no more. What has changed by then is left, or nothing is done." }
                        (html::confirm(&format!("/jobs/{id}/confirm"), &self.options.by))
                    }
                }
                Standing::Done(done) => {
                    h2 { "Done" }
                    pre tabindex="0" { (shown_lines(&done)) }
                }
                Standing::Failed(problem) => {
                    h2 { "Failed" }
                    pre.bad tabindex="0" { (shown_lines(&problem.to_string())) }
                }
            }
        }
    }
}

/// Returns how a job stands, again whenever that changes, until it ends.
///
/// # Errors
/// Verbs are off, or there is no such job.
pub(crate) fn news(
    shared: &Arc<Shared>,
    id: &str,
) -> Result<impl Stream<Item = Markup> + Send + use<>, Box<Response>> {
    let (id, job) = shared.job(id)?;
    let (shared, standing) = (Arc::clone(shared), job.watch());
    Ok(stream::unfold(Some(standing), move |standing| {
        let (shared, job) = (Arc::clone(&shared), Arc::clone(&job));
        async move {
            let mut standing = standing?;
            if standing.has_changed().is_ok_and(|changed| !changed) && job.runs() {
                standing.changed().await.ok()?;
            }
            standing.mark_unchanged();
            let goes_on = job.runs();
            let content = shared.job_content(id, &job);
            Some((content, goes_on.then_some(standing)))
        }
    }))
}

/// Lists the verbs.
pub(crate) async fn verbs(State(shared): State<Arc<Shared>>) -> Response {
    match shared.allows_changes("/do") {
        Ok(()) => {
            let content = html::verbs(&shared.site.verbs());
            shared.reply(StatusCode::OK, "/do", "Do", &content)
        }
        Err(response) => *response,
    }
}

/// The form of a verb. The address may fill fields in.
pub(crate) async fn verb(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Response {
    let mut verb = match shared.verb(uri.path(), &name) {
        Ok(verb) => verb,
        Err(response) => return *response,
    };
    fill(&mut verb, &address_of(&uri));
    shared.reply(StatusCode::OK, "/do", &verb.title, &html::verb(&verb))
}

fn fill(verb: &mut Verb, address: &Address) {
    for field in &mut verb.fields {
        if let Some(value) = address.field(&field.name) {
            field.value = value.to_owned();
        }
    }
}

/// Finds out what a verb would do.
pub(crate) async fn plan(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    uri: Uri,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let verb = match shared.verb(uri.path(), &name) {
        Ok(verb) => verb,
        Err(response) => return *response,
    };
    let path = uri.path().to_owned();
    let address = Address { path, fields };
    match shared.jobs.plan(&shared.site, &name, address, verb.asks) {
        Ok(id) => see(&format!("/jobs/{id}")),
        Err(problem) => shared.problem("/do", &problem),
    }
}

/// Lists the jobs.
pub(crate) async fn jobs(State(shared): State<Arc<Shared>>) -> Response {
    if let Err(response) = shared.allows_changes("/jobs") {
        return *response;
    }
    let content = html! {
        h1 { "Jobs" }
        @let jobs = shared.jobs.all();
        @if jobs.is_empty() { p.quiet { "Nothing was done since the console started." } }
        ul {
            @for (id, job) in jobs {
                li {
                    a href=(format!("/jobs/{id}")) { (shown(&job.title)) } ": "
                    @match job.standing() {
                        Standing::Runs(_) => "runs",
                        Standing::Planned(_) if job.is_used() => "shown, and done",
                        Standing::Planned(_) => "shown, not done",
                        Standing::Done(_) => "done",
                        Standing::Failed(_) => "failed",
                    }
                }
            }
        }
    };
    shared.reply(StatusCode::OK, "/jobs", "Jobs", &content)
}

/// Shows a job.
pub(crate) async fn job(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    let (id, job) = match shared.job(&id) {
        Ok(job) => job,
        Err(response) => return *response,
    };
    // Asked before: if the job ends meanwhile, the page goes on and learns it.
    let runs = job.runs();
    let content = shared.job_content(id, &job);
    let here = format!("/jobs/{id}");
    match runs {
        true => shared.live(&here, &job.title, &content),
        false => shared.reply(StatusCode::OK, &here, &job.title, &content),
    }
}

/// Does what a job has planned.
pub(crate) async fn confirm(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Form(fields): Form<Vec<(String, String)>>,
) -> Response {
    let (id, job) = match shared.job(&id) {
        Ok(job) => job,
        Err(response) => return *response,
    };
    let fields = Address {
        path: format!("/jobs/{id}/confirm"),
        fields,
    };
    let (Some(why), Some(by)) = (fields.field("why"), fields.field("by")) else {
        let problem = "`Why` and `Who`: expected the reason and your name".to_owned();
        return shared.problem(&format!("/jobs/{id}"), &Problem::Wrong(problem));
    };
    let operator = Operator {
        by: by.to_owned(),
        why: why.to_owned(),
    };
    match shared.jobs.carry_out(&shared.site, &job, operator) {
        Ok(id) => see(&format!("/jobs/{id}")),
        Err(problem) => shared.problem("/jobs", &problem),
    }
}

/// Has a job stopped.
pub(crate) async fn stop(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    match shared.job(&id) {
        Ok((id, job)) => {
            job.stop();
            see(&format!("/jobs/{id}"))
        }
        Err(response) => *response,
    }
}
