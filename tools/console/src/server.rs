//! Serves the pages.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Form, Path, Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream::{self, Stream, StreamExt};
use maud::{Markup, html};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::warn;
use uuid::Uuid;

use crate::guard::{Guard, Refused};
use crate::html::{self, Frame};
use crate::jobs::{Job, Jobs, Standing};
use crate::reading::Reading;
use crate::site::{Address, Operator, Problem, Site, Verb};

/// How long a page waits for what is read. Then the frame is sent, and the rest follows.
const FIRST_READ: Duration = Duration::from_millis(50);
/// The most bytes of a form.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// The time between two signs of life on a connection that waits for news.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time between two looks whether the session of a connection has ended.
const SESSION_LOOK: Duration = Duration::from_secs(5);
/// What a page may load: what this server has, and nothing from within a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
     form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// How a console is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens. Port 0 is a free one.
    pub listen: SocketAddr,
    /// Whether verbs may be used.
    pub changes: bool,
    /// The name that the field `Who` has at first.
    pub by: String,
    /// The time between two looks at a page.
    pub every: Duration,
}

/// A console that is served until this is dropped.
pub struct Console {
    address: String,
    server: JoinHandle<()>,
    shared: Arc<Shared>,
}

struct Shared {
    site: Arc<dyn Site>,
    guard: Guard,
    reading: Arc<Reading>,
    jobs: Jobs,
    options: Options,
}

impl Console {
    /// Serves a site.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub async fn start(site: Arc<dyn Site>, options: Options) -> io::Result<Console> {
        let listener = TcpListener::bind(options.listen).await?;
        let local = listener.local_addr()?;
        let shared = shared(site, options, local);
        let router = routes(Arc::clone(&shared));
        let token = shared.guard.token().to_owned();
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                warn!(%error, "the console has ended");
            }
        });
        Ok(Console {
            address: format!("http://{local}/?token={token}"),
            server,
            shared,
        })
    }

    /// Returns the address that a session begins at. Whoever has it may use the console.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Has all jobs stopped, and waits until they say how far they got.
    pub async fn finish(&self) {
        for (_, job) in self.shared.jobs.all() {
            job.stop();
            let mut standing = job.watch();
            // The job has the sender.
            let _ = standing
                .wait_for(|one| !matches!(one, Standing::Runs(_)))
                .await;
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Returns the service of a console that listens at an address, and the token that begins a session.
pub fn router(site: Arc<dyn Site>, options: Options, local: SocketAddr) -> (Router, String) {
    let shared = shared(site, options, local);
    let token = shared.guard.token().to_owned();
    (routes(shared), token)
}

fn shared(site: Arc<dyn Site>, options: Options, local: SocketAddr) -> Arc<Shared> {
    let mut hosts = vec![local.to_string()];
    if local.ip().is_loopback() {
        hosts.push(format!("localhost:{}", local.port()));
    }
    // Browsers send a cookie to all ports of a host: another console has one with another name.
    let guard = Guard::new(format!("console-{}", local.port()), hosts);
    Arc::new(Shared {
        reading: Reading::new(Arc::clone(&site), options.every),
        site,
        guard,
        jobs: Jobs::default(),
        options,
    })
}

fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/live", get(live))
        .route("/do", get(verbs))
        .route("/do/{verb}", get(verb).post(plan))
        .route("/jobs", get(jobs))
        .route("/jobs/{id}", get(job))
        .route("/jobs/{id}/confirm", post(confirm))
        .route("/jobs/{id}/stop", post(stop))
        .route("/sign-out", post(sign_out))
        .fallback(get(page))
        .layer(from_fn_with_state(Arc::clone(&shared), check))
        .route("/static/style.css", get(style))
        .route("/static/live.js", get(script))
        .layer(from_fn_with_state(Arc::clone(&shared), check_origin))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .with_state(shared)
}

async fn style() -> impl IntoResponse {
    (
        [(CONTENT_TYPE, "text/css; charset=utf-8")],
        include_str!("assets/style.css"),
    )
}

async fn script() -> impl IntoResponse {
    let script = include_str!("assets/live.js");
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], script)
}

/// Refuses requests for other hosts, and those that other sites make; adds the headers that every reply has.
async fn check_origin(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let checked = shared
        .guard
        .check_origin(request.method(), request.headers());
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refused) => refuse(&request, refused),
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Begins a session if the address has the token; otherwise refuses requests without one.
async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let now = Instant::now();
    let address = address_of(request.uri());
    if let Some(token) = address.field("token") {
        return match shared.guard.begin(token, now) {
            // The token does not stay in the address, where others may see it.
            Some(cookie) => {
                let mut response = see(address.path.as_str());
                let cookie = HeaderValue::from_str(&cookie).expect("it is plain ASCII");
                response.headers_mut().insert(SET_COOKIE, cookie);
                response
            }
            None => refuse(&request, Refused::Session),
        };
    }
    match shared.guard.check_session(request.headers(), now) {
        Ok(()) => next.run(request).await,
        Err(refused) => refuse(&request, refused),
    }
}

fn refuse(request: &Request, refused: Refused) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    warn!(%method, %path, reason = %refused, "request refused");
    (StatusCode::FORBIDDEN, format!("{refused}\n")).into_response()
}

/// Leads to a path of the console.
fn see(path: &str) -> Response {
    // Browsers take `//` and `/\` for the beginning of another host.
    let path = format!("/{}", path.trim_start_matches(['/', '\\']));
    let location = HeaderValue::from_str(&path).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

fn address_of(uri: &Uri) -> Address {
    let fields = Query::try_from_uri(uri);
    Address {
        path: uri.path().to_owned(),
        fields: fields.map_or_else(|_| Vec::new(), |Query(fields)| fields),
    }
}

impl Shared {
    fn frame(&self, here: String, is_live: bool) -> Frame {
        let mut menu = self.site.menu();
        if self.options.changes {
            let own = [("/do", "Do"), ("/jobs", "Jobs")];
            menu.extend(own.map(|(path, name)| (path.to_owned(), name.to_owned())));
        }
        Frame {
            name: self.site.name(),
            menu,
            here,
            is_live,
        }
    }

    fn reply(&self, status: StatusCode, here: &str, title: &str, content: &Markup) -> Response {
        let frame = self.frame(here.to_owned(), false);
        (status, Html(html::document(&frame, title, content))).into_response()
    }

    fn live(&self, here: &str, title: &str, content: &Markup) -> Response {
        let frame = self.frame(here.to_owned(), true);
        Html(html::document(&frame, title, content)).into_response()
    }

    fn problem(&self, here: &str, problem: &Problem) -> Response {
        let (status, title) = match problem {
            Problem::NotFound(_) => (StatusCode::NOT_FOUND, "Not found"),
            Problem::Wrong(_) => (StatusCode::BAD_REQUEST, "Wrong value"),
            Problem::Failed(_) => (StatusCode::BAD_GATEWAY, "Not read"),
        };
        let content = html::problem(title, &problem.to_string());
        self.reply(status, here, title, &content)
    }

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

    fn allows_changes(&self, path: &str) -> Result<(), Box<Response>> {
        if self.options.changes {
            return Ok(());
        }
        warn!(%path, reason = "changes are off", "request refused");
        let content = html::problem(
            "Changes are off",
            "this console only shows; start it with `--allow-changes` to do something",
        );
        Err(Box::new(self.reply(
            StatusCode::FORBIDDEN,
            path,
            "Changes are off",
            &content,
        )))
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
            h1 { (job.title) }
            @match job.standing() {
                Standing::Runs(progress) => {
                    p role="status" { "It runs. " (crate::words::shown(&progress)) }
                    (html::stop(&format!("/jobs/{id}/stop")))
                }
                Standing::Planned(plan) => {
                    h2 { "What it would do" }
                    pre tabindex="0" { (crate::words::shown_lines(&plan.shown)) }
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
                    pre tabindex="0" { (crate::words::shown_lines(&done)) }
                }
                Standing::Failed(problem) => {
                    h2 { "Failed" }
                    pre.bad tabindex="0" { (crate::words::shown_lines(&problem.to_string())) }
                }
            }
        }
    }
}

/// A page of the site.
async fn page(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let here = uri.path_and_query().map_or("/", |path| path.as_str());
    if uri.path() == "/" {
        let menu = shared.site.menu();
        return see(menu.first().map_or("/do", |(path, _)| path));
    }
    let mut page = match shared.reading.of(&address_of(&uri)) {
        Ok(page) => page,
        Err(problem) => return shared.problem(here, &problem),
    };
    let read = tokio::time::timeout(FIRST_READ, page.wait_for(Option::is_some)).await;
    let read = read.ok().and_then(|read| read.ok()?.clone());
    match read {
        Some(Ok(page)) => shared.live(here, &page.title, &html::page(&page)),
        Some(Err(problem @ Problem::Failed(_))) => {
            let content = html::problem("Not read", &problem.to_string());
            shared.live(here, "Not read", &content)
        }
        Some(Err(problem)) => shared.problem(here, &problem),
        None => {
            let content = html! { h1 { "Reading" } p role="status" { "The stack is being read." } };
            shared.live(here, "Reading", &content)
        }
    }
}

#[derive(serde::Deserialize)]
struct LiveQuery {
    address: String,
}

/// Sends the content of a page, and sends it again when it changes.
async fn live(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(query): Query<LiveQuery>,
) -> Response {
    let ended = session_end(Arc::clone(&shared), headers);
    let Ok(uri) = query.address.parse::<Uri>() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if let Some(id) = uri.path().strip_prefix("/jobs/") {
        return match shared.job(id) {
            Ok((id, job)) => events(job_news(Arc::clone(&shared), id, job), ended),
            Err(response) => *response,
        };
    }
    match shared.reading.of(&address_of(&uri)) {
        Ok(page) => {
            let news = stream::unfold((page, false), async |(mut page, was_sent)| {
                match was_sent {
                    true => page.changed().await.ok()?,
                    false => drop(page.wait_for(Option::is_some).await.ok()?),
                }
                let read = page.borrow_and_update().clone()?;
                Some((read, (page, true)))
            });
            let pages = news.map(|read| match read {
                Ok(page) => html::page(&page),
                Err(problem) => html::problem("Not read", &problem.to_string()),
            });
            events(pages, ended)
        }
        Err(problem) => shared.problem("/", &problem),
    }
}

/// Returns how a job stands, again whenever that changes, until it ends.
fn job_news(shared: Arc<Shared>, id: Uuid, job: Arc<Job>) -> impl Stream<Item = Markup> + Send {
    let standing = job.watch();
    stream::unfold(Some(standing), move |standing| {
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
    })
}

/// Waits until a session ends. Who looks at a page uses it.
async fn session_end(shared: Arc<Shared>, headers: HeaderMap) {
    while shared.guard.check_session(&headers, Instant::now()).is_ok() {
        tokio::time::sleep(SESSION_LOOK).await;
    }
}

fn events(
    news: impl Stream<Item = Markup> + Send + 'static,
    ended: impl Future<Output = ()> + Send + 'static,
) -> Response {
    let pages = news
        .take_until(Box::pin(ended))
        .map(|content| Event::default().event("page").data(content.into_string()));
    let end = stream::once(async { Event::default().event("end").data("end") });
    let events = pages.chain(end).map(Ok::<_, Infallible>);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Sse::new(events).keep_alive(keep_alive).into_response()
}

/// Lists the verbs.
async fn verbs(State(shared): State<Arc<Shared>>) -> Response {
    match shared.allows_changes("/do") {
        Ok(()) => {
            let content = html::verbs(&shared.site.verbs());
            shared.reply(StatusCode::OK, "/do", "Do", &content)
        }
        Err(response) => *response,
    }
}

/// The form of a verb. The address may fill fields in.
async fn verb(State(shared): State<Arc<Shared>>, Path(name): Path<String>, uri: Uri) -> Response {
    let mut verb = match shared.verb(uri.path(), &name) {
        Ok(verb) => verb,
        Err(response) => return *response,
    };
    fill(&mut verb, &address_of(&uri));
    shared.reply(StatusCode::OK, "/do", &verb.title, &html::verb(&verb, None))
}

fn fill(verb: &mut Verb, address: &Address) {
    for field in &mut verb.fields {
        if let Some(value) = address.field(&field.name) {
            field.value = value.to_owned();
        }
    }
}

/// Finds out what a verb would do.
async fn plan(
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
async fn jobs(State(shared): State<Arc<Shared>>) -> Response {
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
                    a href=(format!("/jobs/{id}")) { (job.title) } " "
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
async fn job(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
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
async fn confirm(
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
async fn stop(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    match shared.job(&id) {
        Ok((id, job)) => {
            job.stop();
            see(&format!("/jobs/{id}"))
        }
        Err(response) => *response,
    }
}

/// Ends the session.
async fn sign_out(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response {
    shared.guard.end(request.headers());
    "The session has ended.\n".into_response()
}
