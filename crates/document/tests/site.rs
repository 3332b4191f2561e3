// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The site of `make docs` in a real browser: every page fits a phone and a desk, in both colours, asks no other host
//! for anything, and its links lead somewhere.

#[path = "support/browser.rs"]
mod browser;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, thread};

use browser::Browser;
use serde_json::{Value, json};

const READY: &str = "document.readyState === 'complete'";
const WIDTHS: [u32; 2] = [375, 1280];
const SCHEMES: [(&str, &str); 2] = [("light", "light"), ("dark", "navy")];
const LINKS: &str =
    "[...document.querySelectorAll('main a[href], nav a[href]')].map(link => link.href)";
const IDS: &str = "[...document.querySelectorAll('[id]')].map(element => element.id)";
const BROKEN_IMAGES: &str = "[...document.images].filter(image => !image.naturalWidth).length";
/// Shows the list of pages without its transition, and tells whether it is visible.
const HAS_LIST: &str = "(document.documentElement.classList.contains('sidebar-visible') || \
    (document.documentElement.classList.add('sidebar-resizing'), \
    document.getElementById('mdbook-sidebar-toggle').click())) && \
    (list => list.width > 0 && list.left >= 0)(document.querySelector('nav.sidebar').getBoundingClientRect())";
/// How much of a page must be scrolled to sideways, in pixels. Its parts scroll by themselves: those that hold all of it
/// count as well. Blocks of code and tables may.
const OVERFLOW: &str = "Math.max(document.documentElement.scrollWidth - innerWidth, \
    ...[...document.querySelectorAll('body, .page-wrapper, .page, .content, main')]\
    .map(part => part.scrollWidth - part.clientWidth))";
const FOREIGN: &str = "[...document.querySelectorAll('script[src], link[href], img[src], iframe[src]')]\
    .map(one => one.src || one.href).filter(url => !url.startsWith('file:'))";

fn site() -> PathBuf {
    let built = Path::new("../../target/site");
    built.canonicalize().expect("the site: `make docs` builds it")
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the site") {
        let path = entry.expect("an entry").path();
        match path.extension() {
            _ if path.is_dir() => pages(&path, found),
            Some(end) if end == "html" => found.push(path),
            _ => {}
        }
    }
}

fn strings(value: &Value) -> Vec<String> {
    let all = value.as_array().expect("a list");
    all.iter().map(|one| one.as_str().expect("a text").to_owned()).collect()
}

/// A promise that a condition holds within some 10 s.
fn until(condition: &str) -> String {
    format!(
        "new Promise(done => {{ let tries = 0; (function look() {{ \
         if ({condition}) done(true); else if (++tries > 500) done(false); else setTimeout(look, 20); }})(); }})"
    )
}

/// What was seen of some pages.
#[derive(Default)]
struct Seen {
    wrong: Vec<String>,
    /// Of each page: what links may lead to.
    ids: BTreeMap<PathBuf, BTreeSet<String>>,
    /// The page, and where it leads.
    links: Vec<(String, String)>,
}

/// Open each of `pages` in each width and colour.
fn look(site: &Path, pages: &[PathBuf]) -> Seen {
    let own = format!("file://{}/", site.display());
    let mut seen = Seen::default();
    let mut browser = Browser::start(&[]);
    for page in pages {
        let name = page.strip_prefix(site).expect("a page of the site").display().to_string();
        browser.emulate(WIDTHS[0], 800, SCHEMES[0].0);
        browser.open(page, READY);
        for width in WIDTHS {
            browser.emulate(width, 800, SCHEMES[0].0);
            if width == WIDTHS[1] && browser.eval(&until(HAS_LIST)) != json!(true) {
                seen.wrong.push(format!("{name} at {width} px: has no list of pages"));
            }
            for (scheme, theme) in SCHEMES {
                browser.emulate(width, 800, scheme);
                let what = format!("{name} at {width} px, {scheme}");
                let has_theme = format!("document.documentElement.classList.contains('{theme}')");
                if browser.eval(&until(&has_theme)) != json!(true) {
                    seen.wrong.push(format!("{what}: has not the theme {theme}"));
                }
                // A layout may still be on its way.
                if browser.eval(&until(&format!("{OVERFLOW} <= 0"))) != json!(true) {
                    seen.wrong.push(format!("{what}: {} px too wide", browser.eval(OVERFLOW)));
                }
                browser
                    .screenshot(&format!("{}-{width}-{scheme}.png", name.replace('/', "-")), false);
            }
        }
        seen.wrong.extend(browser.complaints().iter().map(|said| format!("{name}: {said}")));
        let asked = browser.requests(page).into_iter().filter(|url| !url.starts_with(&own));
        seen.wrong.extend(asked.map(|url| format!("{name} asks for {url}")));
        let foreign = strings(&browser.eval(FOREIGN));
        seen.wrong.extend(foreign.iter().map(|url| format!("{name} names {url}")));
        if browser.eval(BROKEN_IMAGES) != json!(0) {
            seen.wrong.push(format!("{name}: an image is not shown"));
        }
        seen.ids
            .insert(page.clone(), strings(&browser.eval(IDS)).into_iter().collect::<BTreeSet<_>>());
        seen.links
            .extend(strings(&browser.eval(LINKS)).into_iter().map(|link| (name.clone(), link)));
    }
    seen
}

#[test]
#[ignore = "needs the site: `make test-docs` builds it and runs this"]
fn every_page_fits_asks_nobody_and_leads_somewhere() {
    let site = site();
    let mut all = Vec::new();
    pages(&site, &mut all);
    // The list of pages for a browser without scripts, and an answer of a server: no pages that link.
    all.retain(|page| !["toc.html", "404.html"].iter().any(|other| page.ends_with(other)));
    assert!(all.len() > 90, "{} pages", all.len());

    // A browser for each of two CPUs.
    let halves: Vec<Seen> = thread::scope(|scope| {
        let site = &site;
        let halves = all.chunks(all.len().div_ceil(2));
        let threads: Vec<_> = halves.map(|half| scope.spawn(move || look(site, half))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a browser")).collect()
    });
    let (mut wrong, mut ids, mut links) = (Vec::new(), BTreeMap::new(), Vec::new());
    for half in halves {
        wrong.extend(half.wrong);
        ids.extend(half.ids);
        links.extend(half.links);
    }

    let mut headings = 0;
    links.retain(|(_, link)| link.starts_with("file:"));
    for (name, link) in &links {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = PathBuf::from(path.trim_start_matches("file://"));
        let heading_is_there = || ids.get(&path).is_some_and(|ids| ids.contains(heading));
        if !path.is_file() || !path.starts_with(&site) {
            wrong.push(format!("{name} links to {link}, which is no file of the site"));
        } else if !heading.is_empty() && !heading_is_there() {
            wrong.push(format!("{name} links to {link}, a heading that is not there"));
        }
        headings += usize::from(!heading.is_empty());
    }
    assert!(links.len() > 5_000 && headings > 500, "{} links, {headings} headings", links.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "needs the site: `make test-docs` builds it and runs this"]
fn the_list_is_shown_and_the_search_finds_first_write() {
    let site = site();
    let mut browser = Browser::start(&[]);
    // Where there is room, the list of pages is shown unasked.
    for width in WIDTHS {
        browser.emulate(width, 800, "light");
        browser.open(&site.join("index.html"), READY);
        let shown = "document.documentElement.classList.contains('sidebar-visible')";
        assert_eq!(browser.eval(shown), json!(width == WIDTHS[1]), "the list at {width} px");
    }
    browser.emulate(375, 800, "light");
    browser.open(&site.join("index.html"), READY);
    browser.eval("document.getElementById('mdbook-search-toggle').click()");
    browser.eval("document.getElementById('mdbook-searchbar').value = 'first write'");
    let is_found = "document.getElementById('mdbook-searchbar').dispatchEvent(new KeyboardEvent('keyup')) && \
        document.querySelector('#mdbook-searchresults a') !== null";
    assert_eq!(browser.eval(&until(is_found)), json!(true), "results");
    let found = strings(&browser.eval(
        "[...document.querySelectorAll('#mdbook-searchresults li')].map(one => one.innerText.toLowerCase())",
    ));
    assert!(found.iter().any(|text| text.contains("glossary")), "{found:?}");
    assert_eq!(browser.complaints(), [""; 0]);
    browser.screenshot("search.png", false);
}
