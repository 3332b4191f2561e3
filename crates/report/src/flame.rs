// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flame graphs.

use anyhow::{Result, ensure};
use inferno::differential;
use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{self, Direction, Options};

/// Draws stacks, lines of `outermost;…;innermost count`, as a picture (SVG) that answers to the mouse
/// and needs nothing else. `None` without stacks.
pub fn graph(folded: &str, title: &str, unit: &str) -> Result<Option<String>> {
    draw(folded, title, unit, "")
}

/// The same of two runs: as wide as the second, red where it has more and blue where it has less.
pub fn difference(both: [&str; 2], title: &str, unit: &str) -> Result<Option<String>> {
    if both[1].is_empty() {
        return Ok(None);
    }
    let mut lines = Vec::new();
    let [before, after] = both.map(str::as_bytes);
    differential::from_readers(differential::Options::default(), before, after, &mut lines)?;
    let subtitle = "red: more than before; blue: less; as wide as the second run";
    draw(&String::from_utf8_lossy(&lines), title, unit, subtitle)
}

fn draw(lines: &str, title: &str, unit: &str, subtitle: &str) -> Result<Option<String>> {
    if lines.is_empty() {
        return Ok(None);
    }
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    options.subtitle = (!subtitle.is_empty()).then(|| subtitle.to_owned());
    unit.clone_into(&mut options.count_name);
    options.colors = Palette::Basic(BasicPalette::Mem);
    options.deterministic = true;
    // What begins a program stands on top, and nothing that is narrower than a line is drawn.
    options.direction = Direction::Inverted;
    options.min_width = 0.1;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut svg)?;
    let svg = String::from_utf8(svg)?;
    ensure!(svg.contains("</svg>"), "the flame graph was not drawn to its end");
    Ok(Some(svg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_the_picture_needs_nothing_else() {
        let svg = graph("a <script>;b 3\na <script>;c 2\n", "Copies", "pages").unwrap().unwrap();
        assert!(svg.contains("a &lt;script&gt;") && !svg.contains("a <script>"));
        // Links in comments load nothing.
        for loads in ["src=", "href=\"http", "url(http", "@import", "fetch(", "XMLHttp"] {
            assert!(!svg.contains(loads), "{loads}: {svg}");
        }
        assert_eq!(graph("", "Copies", "pages").unwrap(), None);
    }

    #[test]
    fn a_difference_has_both() {
        let svg = difference(["a;b 3\n", "a;b 5\na;c 1\n"], "Copies", "pages").unwrap().unwrap();
        assert!(svg.contains("red: more than before") && svg.contains("c (1 pages"), "{svg}");
    }
}
