//! The page of `siltstone advise --html` in a browser, where there is one: what it opens on, which designs break
//! a limit, and its knobs.

use crate::advise::data_of;
use crate::{path, run};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a browser may be called.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// What turns the knobs.
const SCRIPT: &str = include_str!("page.js");

/// The browser; `None` where there is none, which is said past what the test's output is kept from.
fn browser() -> Option<PathBuf> {
    let places = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&places)
        .flat_map(|place| BROWSERS.map(|name| place.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: there is no chromium to show the page of advise");
    }
    found
}

/// What the page at `file` shows while its knobs are turned.
fn shown(browser: &Path, dir: &Path, file: &str) -> Value {
    let page = std::fs::read_to_string(file).unwrap();
    let turned = path(dir, "turned.html");
    std::fs::write(&turned, page.replace("</body>", &format!("<script>{SCRIPT}</script></body>"))).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
        ])
        .args(["--disable-sync", "--virtual-time-budget=5000", "--timeout=60000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", path(dir, "profile")))
        .arg(format!("file://{turned}"))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let document = String::from_utf8(output.stdout).unwrap();
    let report = document.split_once("<pre id=\"report\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((report, _)) = report else { panic!("the page's script fails: {document}") };
    let report = report.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&report).unwrap()
}

/// The JSON of advice, the data of its page, and what a browser shows of that; `None` without a browser.
fn advice(more: &[&str]) -> Option<(Value, Value, Value)> {
    let browser = browser()?;
    let dir = tempfile::tempdir().unwrap();
    let file = path(dir.path(), "advice.html");
    let args = ["advise", "--items", "1M", "--memory", "16M", "--json", "--html", &file];
    let advice = run(&[&args[..], more].concat()).ok().json();
    let data = data_of(&std::fs::read_to_string(&file).unwrap());
    Some((advice, data, shown(&browser, dir.path(), &file)))
}

fn row<'a>(seen: &'a Value, class: &str) -> Option<&'a Value> {
    let rows = seen["rows"].as_array().unwrap();
    rows.iter().find(|row| row["classes"].as_array().unwrap().iter().any(|found| found == class))
}

#[track_caller]
fn shows_the_advised(seen: &Value, advice: &Value) {
    let best = &advice["best"];
    let title = format!("{} (advised)", best["name"].as_str().unwrap());
    assert_eq!((&seen["name"], &seen["state"]), (&title.clone().into(), &"Keeps to all limits.".into()));
    assert!(seen["why_name"].as_str().unwrap().contains(best["name"].as_str().unwrap()));
    assert_eq!(seen["why"], best["why"]);
    let cost = format!("{:.2}", best["predicted"]["cost"].as_f64().unwrap());
    assert_eq!(seen["figures"]["µs an operation"], cost);
    // It stands first among the designs as well, and the front and its strata are drawn.
    let first = &seen["rows"][0];
    assert_eq!((&first["cells"][0], &first["cells"][1]), (&title.into(), &"–".into()));
    assert_eq!(Some(first), row(seen, "advised"));
    assert_eq!(Some(first), row(seen, "chosen"));
    assert_eq!(seen["circles"].as_u64().unwrap() as usize, seen["rows"].as_array().unwrap().len());
    assert!(seen["bands"].as_u64().unwrap() >= 2, "{}", seen["bands"]);
}

#[test]
fn the_page_opens_on_what_is_advised_and_shows_which_limits_are_broken() {
    let limits =
        ["--overwrites", "0.5", "--space-at-most", "1.5", "--reads-at-most", "1.2", "--years-at-least", "3"];
    let rate = ["--puts-per-second", "5000"];
    let Some((advice, data, seen)) = advice(&[&limits[..], &rate].concat()) else { return };
    shows_the_advised(&seen["opened"], &advice);
    let asked = data["asked"].as_u64().unwrap() as usize;
    let mut broken = 0;
    for row in seen["opened"]["rows"].as_array().unwrap() {
        let price = &data["designs"][row["at"].as_u64().unwrap() as usize]["prices"][asked];
        let figure = |name: &str| price[name].as_f64().unwrap();
        let keeps = figure("peak_space_amplification") <= 1.5
            && figure("reads_per_hit") <= 1.2
            && figure("device_years") >= 3.0
            && price["breaks"]["limit"] != "memory";
        assert_eq!(row["cells"][1] == "–", keeps, "{row} {price}");
        broken += usize::from(!keeps);
    }
    assert!(broken > 0, "no preset breaks a limit");
    let state = seen["broken"]["state"].as_str().unwrap();
    assert!(state.starts_with("Breaks the limit on "), "{state}");
    // The advised design is the cheapest of the page where it was asked for.
    shows_the_advised(&seen["cheapest"], &advice);
    shows_the_advised(&seen["back"], &advice);
}

#[test]
fn the_knobs_of_the_page_work() {
    let Some((advice, data, seen)) = advice(&["--reads", "0.7", "--hits", "0.5", "--scans", "0.003"]) else {
        return;
    };
    shows_the_advised(&seen["opened"], &advice);
    assert_eq!(
        (&seen["opened"]["memory"], &seen["little_memory"]["memory"]),
        (&"16 MiB".into(), &"2.0 MiB".into())
    );
    let cost = |seen: &Value| seen["figures"]["µs an operation"].as_str().unwrap().parse::<f64>().unwrap();
    assert!(cost(&seen["little_memory"]) > cost(&seen["opened"]));
    assert!(!seen["broken"].is_null() || row(&seen["little_memory"], "broken").is_some());
    // Puts alone, with the least memory: the cheapest of those that keep to the limits.
    let cheapest =
        data["designs"].as_array().unwrap().iter().filter(|design| design["prices"][0]["breaks"].is_null());
    let least = cheapest.map(|design| design["prices"][0]["operation_cost"]["put"].as_f64().unwrap());
    assert_eq!(
        seen["puts_alone"]["figures"]["µs an operation"],
        format!("{:.2}", least.fold(f64::MAX, f64::min))
    );
    shows_the_advised(&seen["back"], &advice);
}

#[test]
fn the_page_weighs_uncertain_mixes_as_advice_does() {
    let Some((advice, _, seen)) = advice(&["--reads", "0.5", "--uncertain", "0.8"]) else { return };
    shows_the_advised(&seen["opened"], &advice);
    let worst = format!("{:.2}", advice["best"]["worst_cost"].as_f64().unwrap());
    assert_eq!(seen["opened"]["figures"]["µs in the worst mix"], worst);
    shows_the_advised(&seen["cheapest"], &advice);
    // What costs more than the premium allows in the mix that was given is no candidate.
    let cost = |row: &Value| row["cells"][2].as_str().unwrap().parse::<f64>().unwrap();
    let rows = seen["opened"]["rows"].as_array().unwrap().iter();
    let rows: Vec<&Value> = rows.filter(|row| row["cells"][1] != "memory").collect();
    let least = rows.iter().map(|row| cost(row)).fold(f64::MAX, f64::min);
    for row in rows.iter().filter(|row| (cost(row) / least / 1.05 - 1.0).abs() > 0.002) {
        let is_beyond = cost(row) > least * 1.05;
        assert_eq!(row["cells"][1], if is_beyond { "premium" } else { "–" }, "{row}");
    }
}
