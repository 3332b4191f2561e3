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
use serde_json::json;
use tempfile::TempDir;

const READY: &str = "document.readyState === 'complete'";

fn page(folder: &TempDir, document: &Document) -> PathBuf {
    let path = folder.path().join("report.html");
    fs::write(&path, html::render(document)).expect("writing the page");
    path
}

/// Plots that show data: marks with a size, within the plot's frame.
const DRAWN: &str = "[...document.querySelectorAll('figure.plot')].filter(figure => { \
    const frame = figure.querySelector('.plot-frame').getBoundingClientRect(); \
    const marks = [...figure.querySelectorAll('.area [data-t]')].map(mark => mark.getBoundingClientRect()); \
    return marks.length > 3 && marks.every(mark => mark.width > 0 && mark.left >= frame.left - 1 && mark.right <= frame.right + 1 \
        && mark.top >= frame.top && mark.bottom <= frame.bottom); }).length";

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
    let mut browser = Browser::start(&[]);
    let views =
        [("light", 1280, "light.png"), ("dark", 1280, "dark.png"), ("light", 375, "phone.png")];
    for (scheme, width, name) in views {
        browser.emulate(width, 900, scheme);
        browser.open(&page, READY);
        check(&mut browser, &page, plots, name);
        browser.screenshot(name, true);
    }

    // Darkened while open; paper is light whatever the screen is.
    let ink = "getComputedStyle(document.querySelector('.key.c0')).color";
    browser.emulate(1280, 900, "dark");
    browser.open(&page, READY);
    assert_eq!(browser.eval(ink), json!("rgb(86, 180, 233)"));
    browser.emulate(375, 900, "light");
    assert_eq!(browser.eval(ink), json!("rgb(0, 114, 178)"));
    check(&mut browser, &page, plots, "changed while open");
    browser.emulate(1280, 900, "dark");
    browser.screenshot("print.pdf", true);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn the_pointer_is_shown_the_nearest_figures() {
    let folder = TempDir::new().expect("a temporary folder");
    let page = page(&folder, &gallery::document());
    let mut browser = Browser::start(&[]);
    browser.emulate(1280, 900, "light");
    browser.open(&page, READY);
    let point = |plot: &str, away: u32| {
        format!(
            "(() => {{ const mark = document.querySelector('#{plot} [data-t]'); mark.scrollIntoView({{ block: 'center' }}); \
             const box = mark.getBoundingClientRect(); \
             const at = {{ clientX: box.left + box.width / 2 + {away}, clientY: box.top + box.height / 2, bubbles: true }}; \
             mark.closest('svg').dispatchEvent(new PointerEvent('pointermove', at)); \
             const tip = document.querySelector('.tip'); return tip.hidden ? null : tip.innerText; }})()"
        )
    };
    let shown = browser.eval(&point("steps", 5));
    assert_eq!(shown, json!("Measured\nTime: 520 ns (505 to 540)\nTrap"));
    let shown = browser.eval(&point("saving", 0));
    assert!(
        shown.as_str().is_some_and(|text| text.starts_with("none\nsingle\nTime saved: ")),
        "{shown}"
    );
    let far = browser.eval(
        "(() => { const at = { clientX: 5, clientY: 5, bubbles: true }; \
         document.body.dispatchEvent(new PointerEvent('pointermove', at)); \
         return document.querySelector('.tip').hidden; })()",
    );
    assert_eq!(far, json!(true));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn complaints_and_requests_would_be_seen() {
    let folder = TempDir::new().expect("a temporary folder");
    let page = folder.path().join("bad.html");
    let bad = "<script>console.error('one'); setTimeout(() => { throw new Error('two') })</script>\
               <img src=other.png><p id=end>";
    fs::write(&page, bad).expect("writing the page");
    let mut browser = Browser::start(&[]);
    browser.open(&page, "document.readyState === 'complete'");
    let complaints = browser.complaints().join(" ");
    for word in ["one", "two", "ERR_FILE_NOT_FOUND"] {
        assert!(complaints.contains(word), "{word}: {complaints}");
    }
    assert_eq!(browser.requests(&page).len(), 1);
}
