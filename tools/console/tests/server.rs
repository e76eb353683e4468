//! What requests get, with a site that knows one page and one verb.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has nobody to tell but the test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{Request, Response, StatusCode};
use console::{
    Address, Content, Course, Field, Operator, Options, Page, Plan, Problem, Site, Text, Verb,
    router,
};
use tower::ServiceExt;

const HOST_NAME: &str = "127.0.0.1:4000";
const MARKUP: &str = "<script>alert(1)</script>";

#[derive(Default)]
struct Small {
    done: AtomicUsize,
}

#[console::async_trait]
impl Site for Small {
    fn name(&self) -> String {
        "small".to_owned()
    }

    fn menu(&self) -> Vec<(String, String)> {
        vec![("/page".to_owned(), "Page".to_owned())]
    }

    async fn page(&self, address: &Address) -> Result<Page, Problem> {
        match address.path.as_str() {
            "/page" => {
                let words = address.field("words").unwrap_or("nothing");
                Ok(Page::new("Page").with("", Content::Notes(vec![Text::from(words)])))
            }
            other => Err(Problem::NotFound(format!("`{other}`: no such page"))),
        }
    }

    fn verbs(&self) -> Vec<Verb> {
        vec![Verb {
            name: "act".to_owned(),
            title: "Act".to_owned(),
            about: "Acts.".to_owned(),
            fields: vec![Field::text("on", "On", "what")],
            asks: true,
        }]
    }

    async fn plan(
        &self,
        verb: &str,
        fields: &Address,
        course: &dyn Course,
    ) -> Result<Plan, Problem> {
        let on = fields.field("on").unwrap_or_default().to_owned();
        if on == "wait" {
            course.show(MARKUP.to_owned());
            course.stopped().await;
            return Err(Problem::Failed("stopped".to_owned()));
        }
        Ok(Plan {
            verb: verb.to_owned(),
            shown: format!("would act on {on}"),
            steps: Vec::from_iter((!on.is_empty()).then_some(on)),
            seen: String::new(),
        })
    }

    async fn carry_out(
        &self,
        plan: &Plan,
        operator: &Operator,
        _: &dyn Course,
    ) -> Result<String, Problem> {
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(format!(
            "acted on {:?} for {} because {}",
            plan.steps, operator.by, operator.why
        ))
    }
}

struct Served {
    site: Arc<Small>,
    router: Router,
    token: String,
    cookie: String,
}

impl Served {
    async fn new(changes: bool) -> Served {
        let site = Arc::new(Small::default());
        let options = Options {
            listen: HOST_NAME.parse().unwrap(),
            changes,
            by: "me".to_owned(),
            every: Duration::from_millis(10),
        };
        let (router, token) = router(site.clone(), options, HOST_NAME.parse().unwrap());
        let mut served = Served {
            site,
            router,
            token,
            cookie: String::new(),
        };
        let response = served.get(&format!("/?token={}", served.token)).await;
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        assert_eq!(response.headers()[LOCATION], "/", "without the token");
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap();
        served.cookie = cookie.split(';').next().unwrap().to_owned();
        served
    }

    async fn send(&self, request: axum::http::request::Builder, body: &str) -> Response<Body> {
        let request = request.body(Body::from(body.to_owned())).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn get(&self, path: &str) -> Response<Body> {
        let request = Request::get(path).header(HOST, HOST_NAME);
        self.send(request.header(COOKIE, &self.cookie), "").await
    }

    async fn post(&self, path: &str, body: &str) -> Response<Body> {
        let request = Request::post(path)
            .header(HOST, HOST_NAME)
            .header(COOKIE, &self.cookie);
        let request = request.header(ORIGIN, format!("http://{HOST_NAME}"));
        self.send(
            request.header("content-type", "application/x-www-form-urlencoded"),
            body,
        )
        .await
    }

    /// Waits until the job that a response leads to has ended; returns its path and its page.
    async fn ended(&self, response: Response<Body>) -> (String, String) {
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        let path = response.headers()[LOCATION].to_str().unwrap().to_owned();
        loop {
            let page = text(self.get(&path).await).await;
            if !page.contains("It runs.") {
                return (path, page);
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn text(response: Response<Body>) -> String {
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn without_a_session_nothing_is_shown() {
    let served = Served::new(true).await;
    for path in [
        "/",
        "/page",
        "/live?address=/page",
        "/do",
        "/jobs",
        "/page?token=wrong",
    ] {
        let request = Request::get(path).header(HOST, HOST_NAME);
        let response = served.send(request, "").await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{path}");
        assert!(!text(response).await.contains("small"), "{path}");
    }
    served.post("/sign-out", "").await;
    assert_eq!(
        served.get("/page").await.status(),
        StatusCode::FORBIDDEN,
        "it has ended"
    );
}

#[tokio::test]
async fn requests_for_other_hosts_and_from_other_sites_are_refused() {
    let served = Served::new(true).await;
    let rebound = Request::get("/page")
        .header(HOST, "evil.example:4000")
        .header(COOKIE, &served.cookie);
    assert_eq!(
        served.send(rebound, "").await.status(),
        StatusCode::FORBIDDEN
    );
    for origin in [None, Some("http://evil.example"), Some("null")] {
        let mut request = Request::post("/do/act")
            .header(HOST, HOST_NAME)
            .header(COOKIE, &served.cookie);
        request = request.header("content-type", "application/x-www-form-urlencoded");
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        assert_eq!(
            served.send(request, "on=it").await.status(),
            StatusCode::FORBIDDEN,
            "{origin:?}"
        );
    }
    assert_eq!(
        text(served.get("/jobs").await)
            .await
            .matches("<li>")
            .count(),
        0
    );
}

#[tokio::test]
async fn every_reply_says_what_a_page_may_load() {
    let served = Served::new(true).await;
    for path in ["/page", "/nothing", "/static/live.js", "/do/act"] {
        let response = served.get(path).await;
        let policy = response.headers()["content-security-policy"]
            .to_str()
            .unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{path}"
        );
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(response.headers()["cache-control"], "no-store");
    }
}

#[tokio::test]
async fn words_of_an_address_are_text() {
    let served = Served::new(false).await;
    let page = text(
        served
            .get("/page?words=%3Cscript%3Ealert(1)%3C/script%3E%00%E2%80%AE")
            .await,
    )
    .await;
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;␀\\u{202e}"),
        "{page}"
    );
    assert!(!page.contains(MARKUP));
    let missing = served.get("/%3Cscript%3E").await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    assert!(!text(missing).await.contains("<script>"));
}

#[tokio::test]
async fn a_redirect_stays_on_the_console() {
    let served = Served::new(false).await;
    let response = served
        .get(&format!("//evil.example/?token={}", served.token))
        .await;
    assert_eq!(response.headers()[LOCATION], "/evil.example/");
}

#[tokio::test]
async fn a_verb_does_once_what_it_showed() {
    let served = Served::new(true).await;
    let form = text(served.get("/do/act?on=it").await).await;
    assert!(form.contains("value=\"it\""), "{form}");
    let (job, page) = served.ended(served.post("/do/act", "on=it").await).await;
    assert!(page.contains("would act on it"), "{page}");
    assert_eq!(served.site.done.load(Ordering::Relaxed), 0);
    let confirm = format!("{job}/confirm");
    let without = served.post(&confirm, "why=&by=me").await;
    assert_eq!(without.status(), StatusCode::BAD_REQUEST);
    let (_, done) = served
        .ended(served.post(&confirm, "why=fixed&by=me").await)
        .await;
    assert!(
        done.contains("acted on [&quot;it&quot;] for me because fixed"),
        "{done}"
    );
    let again = served.post(&confirm, "why=fixed&by=me").await;
    assert_eq!(again.status(), StatusCode::BAD_REQUEST);
    assert_eq!(served.site.done.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_verb_that_would_do_nothing_cannot_be_confirmed() {
    let served = Served::new(true).await;
    let (job, page) = served.ended(served.post("/do/act", "on=").await).await;
    assert!(page.contains("There is nothing to do."), "{page}");
    let refused = served.post(&format!("{job}/confirm"), "why=a&by=b").await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_job_can_be_stopped_and_its_progress_is_text() {
    let served = Served::new(true).await;
    let response = served.post("/do/act", "on=wait").await;
    let job = response.headers()[LOCATION].to_str().unwrap().to_owned();
    let mut page = String::new();
    while !page.contains("alert(1)") {
        tokio::task::yield_now().await;
        page = text(served.get(&job).await).await;
    }
    assert!(!page.contains(MARKUP), "{page}");
    let (_, ended) = served
        .ended(served.post(&format!("{job}/stop"), "").await)
        .await;
    assert!(ended.contains("stopped"), "{ended}");
}

#[tokio::test]
async fn without_changes_there_are_no_verbs_and_no_jobs() {
    let served = Served::new(false).await;
    let page = text(served.get("/page").await).await;
    assert!(!page.contains("/do"), "{page}");
    for path in [
        "/do",
        "/do/act",
        "/jobs",
        "/jobs/0190163d-8694-739b-aea5-966c26f8ad91",
    ] {
        assert_eq!(
            served.get(path).await.status(),
            StatusCode::FORBIDDEN,
            "{path}"
        );
    }
    assert_eq!(
        served.post("/do/act", "on=it").await.status(),
        StatusCode::FORBIDDEN
    );
    assert_eq!(served.site.done.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_form_has_a_size_limit() {
    let served = Served::new(true).await;
    let response = served
        .post("/do/act", &format!("on={}", "a".repeat(70_000)))
        .await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
