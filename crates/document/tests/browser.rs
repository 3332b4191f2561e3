// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page in a real browser: it draws every plot, says nothing on the console, asks for nothing.

#[path = "support/browser.rs"]
mod browser;
#[path = "support/gallery.rs"]
mod gallery;

use std::fs;
use std::path::{Path, PathBuf};

use browser::Browser;
use cowlab_document::{Document, html};
use serde_json::{Value, json};
use tempfile::TempDir;

const READY: &str = "document.documentElement?.dataset.plots === 'drawn'";
const WEBGL: [&str; 2] = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"];
const NO_WEBGL: [&str; 1] = ["--disable-3d-apis"];

fn page(folder: &TempDir, document: &Document) -> PathBuf {
    let path = folder.path().join("report.html");
    fs::write(&path, html::render(document)).expect("writing the page");
    path
}

/// Plots that show data: an SVG with traces, or a canvas of WebGL's.
const DRAWN: &str = "[...document.querySelectorAll('.js-plotly-plot')].filter(plot => \
    plot.querySelector('.trace, .hm, .heatmaplayer image, .bars, .boxlayer path, .gl-container canvas')).length";

fn check(browser: &mut Browser, page: &Path, plots: usize, what: &str) {
    assert_eq!(browser.complaints(), [""; 0], "{what}");
    assert_eq!(browser.requests(page), [""; 0], "{what}");
    assert_eq!(browser.eval(DRAWN), json!(plots), "{what}: plots drawn");
    let overflow = browser.eval("document.documentElement.scrollWidth - innerWidth");
    assert!(overflow.as_i64().is_some_and(|pixels| pixels <= 0), "{what}: {overflow} px too wide");
}

#[test]
fn every_plot_is_drawn_in_each_theme_and_width() {
    let document = gallery::document();
    let plots = document.plots().count();
    let folder = TempDir::new().expect("a temporary folder");
    let page = page(&folder, &document);
    let mut browser = Browser::start(&WEBGL);
    let views =
        [("light", 1280, "light.png"), ("dark", 1280, "dark.png"), ("light", 375, "phone.png")];
    for (scheme, width, name) in views {
        browser.emulate(width, 900, scheme);
        browser.open(&page, READY);
        check(&mut browser, &page, plots, name);
        assert_eq!(
            browser.eval("document.querySelectorAll('.gl-container canvas').length > 0"),
            json!(true)
        );
        browser.screenshot(name, true);
    }

    // Narrowed and darkened while open; paper is light whatever the screen is.
    browser.emulate(1280, 900, "light");
    browser.open(&page, READY);
    browser.emulate(375, 900, "dark");
    let ink = "document.querySelector('.xtitle').style.fill";
    wait(&mut browser, &format!("{ink} === 'rgb(230, 232, 235)'"));
    wait(&mut browser, "document.documentElement.scrollWidth <= innerWidth");
    check(&mut browser, &page, plots, "changed while open");
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(browser.eval(ink), json!("rgb(31, 35, 40)"));
    assert_eq!(
        browser.eval("document.querySelector('.main-svg').getAttribute('width')"),
        json!("660")
    );
    browser.eval("dispatchEvent(new Event('afterprint'))");
    wait(&mut browser, &format!("{ink} === 'rgb(230, 232, 235)'"));
    check(&mut browser, &page, plots, "after printing");
    browser.emulate(1280, 900, "dark");
    browser.open(&page, READY);
    browser.screenshot("print.pdf", true);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn without_webgl_surfaces_are_flat_and_say_so() {
    let document = gallery::document();
    let folder = TempDir::new().expect("a temporary folder");
    let page = page(&folder, &document);
    let mut browser = Browser::start(&NO_WEBGL);
    browser.emulate(1280, 900, "light");
    browser.open(&page, READY);
    check(&mut browser, &page, document.plots().count(), "without WebGL");
    let said = browser.eval("document.querySelector('#cost-surface .plot-status').innerText");
    assert!(said.as_str().is_some_and(|words| words.contains("no WebGL")), "{said}");
    browser.eval("document.querySelector('#cost-surface').scrollIntoView()");
    browser.screenshot("no-webgl.png", true);
}

#[test]
fn an_old_browser_gets_a_sentence() {
    let folder = TempDir::new().expect("a temporary folder");
    let page = page(&folder, &gallery::document());
    let mut browser = Browser::start(&NO_WEBGL);
    let source = json!({ "source": "delete window.DecompressionStream" });
    browser.call("Page.addScriptToEvaluateOnNewDocument", source);
    browser.open(
        &page,
        "document.querySelector('.plot-status')?.innerText.includes('DecompressionStream')",
    );
    assert_eq!(browser.complaints(), [""; 0]);
    assert_eq!(browser.eval(DRAWN), json!(0));
}

#[test]
fn complaints_and_requests_would_be_seen() {
    let folder = TempDir::new().expect("a temporary folder");
    let page = folder.path().join("bad.html");
    let bad = "<script>console.error('one'); setTimeout(() => { throw new Error('two') })</script>\
               <img src=other.png><p id=end>";
    fs::write(&page, bad).expect("writing the page");
    let mut browser = Browser::start(&NO_WEBGL);
    browser.open(&page, "document.readyState === 'complete'");
    let complaints = browser.complaints().join(" ");
    for word in ["one", "two", "ERR_FILE_NOT_FOUND"] {
        assert!(complaints.contains(word), "{word}: {complaints}");
    }
    assert_eq!(browser.requests(&page).len(), 1);
}

fn wait(browser: &mut Browser, condition: &str) -> Value {
    let poll = format!(
        "new Promise(done => {{ const start = Date.now(); (function look() {{ \
         if ({condition}) done(true); else if (Date.now() - start > 20000) done(false); \
         else setTimeout(look, 50); }})(); }})"
    );
    let met = browser.eval(&poll);
    assert_eq!(met, json!(true), "{condition}");
    met
}
