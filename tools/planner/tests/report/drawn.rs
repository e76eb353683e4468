//! What a browser makes of a report. The pictures are in `target/tmp/report`.

use std::path::{Path, PathBuf};

use planner::Record;
use planner::report::{compare, report};

use crate::browser::{Browser, Look, Page, TWO_FRAMES};
use crate::records::{self, FEW, LARGE, SLOW};

const PHONE: u32 = 360;
const TABLET: u32 = 800;
const WIDE: u32 = 1_400;

const ON_PHONE: Look = Look {
    width: PHONE,
    dark: false,
};
const ON_WIDE: Look = Look {
    width: WIDE,
    ..ON_PHONE
};

/// Finds the lines and bars that a reader does not see: for each chart, the colours of its legend that are not in its picture.
const UNDRAWN: &str = r"
[...document.querySelectorAll('div.chart')].flatMap(chart => {
  const name = chart.getAttribute('aria-label');
  const canvas = chart.querySelector('canvas');
  if (!canvas) return [`${name}: no picture`];
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const marks = [...chart.querySelectorAll('.u-marker')].map(mark => {
    const style = getComputedStyle(mark);
    return style.borderTopWidth === '0px' ? style.backgroundColor : style.borderTopColor;
  }).filter(mark => mark !== 'rgba(0, 0, 0, 0)');
  marks.push(...[...chart.querySelectorAll('.key svg')].map(mark => getComputedStyle(mark).backgroundColor));
  if (marks.length === 0) return [`${name}: no legend`];
  return marks.flatMap(mark => {
    const [r, g, b] = mark.match(/\d+/g).map(Number);
    let pixels = 0;
    for (let i = 0; i < data.length; i += 4) {
      const away = Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b);
      if (data[i + 3] > 200 && away < 24) pixels++;
    }
    return pixels >= 12 ? [] : [`${name}: ${mark} has ${pixels} pixels`];
  });
})";

/// Finds texts that leave the screen, or their own box.
const CLIPPED: &str = r"
[document.documentElement, ...document.querySelectorAll('h1, h2, h3, p, li, figcaption, summary, .u-legend, .key, .chart, .scroll')]
  .filter(element => {
    const { right } = element.getBoundingClientRect();
    const scrolls = element.classList.contains('scroll');
    return right > innerWidth + 1 || (!scrolls && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0);
  })
  .map(element => `${element.tagName} ${element.className}: ${element.textContent.slice(0, 60)}`)";

/// Finds tables that are cut: those that are wider than their box, which cannot scroll; and those wider than their box although
/// their cells could wrap.
const CUT: &str = r"
[...document.querySelectorAll('table:not(.u-legend)')].filter(table => {
  const box = table.closest('.scroll');
  const section = table.closest('section').id;
  const wraps = innerWidth > 600 || section === 'figures' || section === 'settings' || section === 'throttles';
  const scrolls = getComputedStyle(box).overflowX === 'auto' && box.getBoundingClientRect().right <= innerWidth;
  return box.scrollWidth > box.clientWidth + 1 && (wraps || !scrolls);
}).map(table => `${table.closest('section').id}: ${table.scrollWidth} of ${table.closest('.scroll').clientWidth}`)";

/// Returns the colour of each verdict's edge, and that of its word, whose background is the edge's colour.
const VERDICTS: &str = r"
[...document.querySelectorAll('.verdict')].map(verdict => {
  const word = verdict.querySelector('strong');
  return [word.textContent, getComputedStyle(verdict).borderLeftColor === getComputedStyle(word).backgroundColor,
    getComputedStyle(verdict).borderLeftColor !== getComputedStyle(document.querySelector('.origin')).color];
})";

/// Opens the tables of numbers; returns how many rows each has.
const ROWS: &str = r"
(async () => {
  const all = [...document.querySelectorAll('details')];
  all.forEach(details => details.open = true);
  await new Promise(done => setTimeout(done));
  await new Promise(requestAnimationFrame);
  return all.map(details => [...details.querySelectorAll('tbody')].reduce((rows, body) => rows + body.rows.length, 0));
})()";

/// Returns the looks of a page: on a phone, which clips the most, or with `TEST_ALL` every width, light and dark.
fn looks() -> impl Iterator<Item = Look> {
    let all = std::env::var_os("TEST_ALL").is_some();
    let widths = [PHONE, TABLET, WIDE];
    let schemes = [false, true];
    let few = if all { (3, 2) } else { (1, 1) };
    let widths = widths.into_iter().take(few.0);
    widths.flat_map(move |width| {
        let schemes = schemes.into_iter().take(few.1);
        schemes.map(move |dark| Look { width, dark })
    })
}

/// Returns the folder of the pictures.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&folder).expect("make the folder");
    folder
}

/// Writes a page; returns its address.
fn write(name: &str, html: &str) -> String {
    let file = folder().join(name).with_extension("html");
    std::fs::write(&file, html).expect("write the page");
    let file = file.canonicalize().expect("the file exists");
    format!("file://{}", file.display())
}

/// Opens a report in every look, checks what it shows, and keeps a picture.
fn is_drawn_well(name: &str, html: &str, charts: u64) {
    let file = write(name, html);
    let mut browser = Browser::start();
    for look in looks() {
        let mut page = browser.open(&file, look);
        let drawn = page.evaluate("Number(document.documentElement.dataset.drawn)");
        assert_eq!(drawn, charts, "charts of {name}, {look:?}");
        for (script, what) in [(UNDRAWN, "lines"), (CLIPPED, "texts"), (CUT, "tables")] {
            let found = page.evaluate(script);
            assert_eq!(found, serde_json::json!([]), "{what} of {name}, {look:?}");
        }
        let scheme = if look.dark { "dark" } else { "light" };
        page.screenshot(&folder().join(format!("{name}-{}-{scheme}.png", look.width)));
        assert_eq!(
            page.problems(&file),
            [""; 0],
            "problems of {name}, {look:?}"
        );
    }
}

fn few() -> Record {
    records::full("100,000 messages, 5 % duplicates", FEW)
}

fn slow() -> Record {
    records::full("the same with 1,000 units a key", SLOW)
}

#[test]
fn a_report_draws_all_charts_without_errors_or_requests_on_phones_and_wide_screens() {
    is_drawn_well("one", &report(&few()), 9);
}

#[test]
fn a_verdict_is_in_words_and_colour() {
    let mut failed = few();
    failed.outcome.ok = Some(false);
    let file = write("verdicts", &compare(&few(), &failed));
    let mut browser = Browser::start();
    for dark in [false, true] {
        let look = Look { width: WIDE, dark };
        let verdicts = browser.open(&file, look).evaluate(VERDICTS);
        let expected = serde_json::json!([["OK", true, true], ["FAILED", true, true]]);
        assert_eq!(verdicts, expected);
    }
}

#[test]
fn a_run_of_minutes_is_drawn_with_minutes() {
    let mut long = records::full("a run of an hour", FEW);
    let slower = |secs: f64| secs * 100.0;
    for sample in &mut long.samples {
        sample.at_secs = slower(sample.at_secs);
    }
    for batch in &mut long.batches {
        batch.opened_secs = slower(batch.opened_secs);
        for time in [
            &mut batch.sealed_secs,
            &mut batch.leased_secs,
            &mut batch.delivered_secs,
        ] {
            *time = time.map(slower);
        }
    }
    long.outcome.drained_after_secs = long.outcome.drained_after_secs.map(slower);
    let file = write("long", &report(&long));
    let mut browser = Browser::start();
    for width in [WIDE, PHONE] {
        let mut page = browser.open(&file, Look { width, dark: false });
        let legend = page.evaluate("document.querySelector('#totals .u-legend').innerText");
        assert!(legend.as_str().unwrap().contains("47 min 38 s"), "{legend}");
        assert_eq!(page.evaluate(CLIPPED), serde_json::json!([]));
        page.screenshot(&folder().join(format!("long-{width}-light.png")));
    }
}

#[test]
fn two_runs_are_drawn_on_the_same_axes() {
    is_drawn_well("two", &compare(&few(), &slow()), 11);
}

#[test]
fn the_largest_record_is_drawn_and_its_table_of_batches_is_cut() {
    let large = records::full("250 million messages", LARGE);
    let file = write("large", &report(&large));
    let mut browser = Browser::start();
    let mut page = browser.open(&file, ON_WIDE);
    assert_eq!(page.evaluate(UNDRAWN), serde_json::json!([]));
    page.screenshot(&folder().join("large-1400-light.png"));
    let samples = LARGE.samples as u64;
    let rows = page.evaluate(ROWS);
    let expected = [&[samples; 6][..], &[1_000; 2]].concat();
    assert_eq!(rows, serde_json::json!(expected));
    assert_eq!(page.problems(&file), [""; 0]);
}

#[test]
fn a_record_without_observations_is_a_page_without_charts() {
    is_drawn_well("bare", &report(&records::bare()), 0);
}

/// Returns the point of the screen that is this share of the way through a chart.
fn point_in(page: &mut Page<'_>, chart: &str, x: f64, y: f64) -> [f64; 2] {
    let point = page.evaluate(&format!(
        "(() => {{ const over = document.querySelector('#{chart} .u-over'); over.scrollIntoView({{ block: 'center' }});
           const box = over.getBoundingClientRect(); return [box.left + {x} * box.width, box.top + {y} * box.height]; }})()"
    ));
    [0, 1].map(|axis| point[axis].as_f64().expect("a coordinate"))
}

/// Moves the mouse to a point of the window.
fn point_at(page: &mut Page<'_>, x: f64, y: f64) {
    let event = serde_json::json!({ "type": "mouseMoved", "x": x, "y": y });
    page.call("Input.dispatchMouseEvent", event);
    // The charts follow the mouse at the next frames.
    page.evaluate(TWO_FRAMES);
}

#[test]
fn pointing_at_a_chart_tells_its_values() {
    let file = write("pointed", &report(&few()));
    let mut browser = Browser::start();
    let mut page = browser.open(&file, ON_PHONE);
    let [x, y] = point_in(&mut page, "totals", 0.999, 0.5);
    point_at(&mut page, x, y);
    let legend = page.evaluate("document.querySelector('#totals .u-legend').innerText");
    assert!(legend.as_str().unwrap().contains("95,000"), "{legend}");
    // The charts over time move together.
    let legend = page.evaluate("document.querySelector('#environments .u-legend').innerText");
    assert!(!legend.as_str().unwrap().contains('–'), "{legend}");
    let [x, y] = point_in(&mut page, "batches", 0.5, 0.6);
    point_at(&mut page, x, y);
    let readout = page.evaluate("document.querySelector('#batches .readout').innerText");
    assert!(
        readout.as_str().unwrap().starts_with("Batch 4, 0190163d-"),
        "{readout}"
    );
}

#[test]
fn a_page_with_a_request_or_another_script_is_found_out() {
    let html = report(&few());
    let mut browser = Browser::start();
    let mut problems = |name: &str, html: &str| {
        let file = write(name, html);
        browser.open(&file, ON_WIDE).problems(&file)
    };
    assert_eq!(problems("untouched", &html), [""; 0]);
    let image = html.replace("<footer>", "<footer><img src=\"other.png\">");
    assert!(!problems("image", &image).is_empty());
    let footer = "<footer><script>document.title = 'run'</script>";
    let script = html.replace("<footer>", footer);
    assert!(!problems("script", &script).is_empty());
}
