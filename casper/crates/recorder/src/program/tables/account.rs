// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a trace lacks: said first, and plainly.

use cowlab_casper::profile::Profile;

use cowlab_document::{Block, fmt};

pub(super) fn blocks(profile: &Profile) -> Vec<Block> {
    let list = lines(profile);
    if list.is_empty() {
        let text = "Yes. Nothing was dropped, overwritten or damaged.";
        return vec![Block::Text(text.to_owned())];
    }
    list.into_iter().map(Block::Text).collect()
}

/// A sentence for each thing that is missing or not known.
pub(super) fn lines(profile: &Profile) -> Vec<String> {
    let damage = &profile.damage;
    let mut lines = Vec::new();
    let mut say = |count: u64, text: &str| {
        if count > 0 {
            lines.push(text.replace("{}", &fmt::count(count)));
        }
    };
    say(
        damage.lost.dropped,
        "{} events were dropped, since buffers were full: record with larger ones (--buffer-bytes), fewer types, or --when-full wait.",
    );
    say(
        damage.lost.overwritten,
        "{} events were overwritten, since buffers were full, as it was asked for.",
    );
    say(
        damage.lost.no_buffer,
        "{} events were dropped, since no buffer was free: record with more (--buffers).",
    );
    say(damage.lost.disk, "{} events were lost, since the disk was full.");
    say(damage.lost.meta, "{} names of types, functions or files found no room.");
    say(damage.missing_events, "{} events that were stored are not in the file any more.");
    let place = damage.first_skipped.map_or(String::new(), |at| format!(", first at offset {at}"));
    say(damage.skipped_bytes, &format!("{{}} bytes are damaged and were passed over{place}."));
    say(damage.missing_chunks, "{} chunks are missing or damaged.");
    say(
        damage.bad_records,
        "{} chunks end in records that no program wrote; what follows in them is lost.",
    );
    say(damage.cut_bytes, "The file ends within a chunk: its last {} bytes were cut.");
    if !damage.finished {
        lines.push("The recording has not ended in order: it still goes on, or its recorder was killed. Counts of what was lost are those of its last moment.".to_owned());
    }
    if profile.metadata.damaged > 0 {
        let count = fmt::count(profile.metadata.damaged);
        lines.push(format!("{count} entries of metadata are damaged: names are missing."));
    }
    if profile.metadata.unfinished > 0 {
        let count = fmt::count(profile.metadata.unfinished);
        lines.push(format!("{count} entries of metadata were not finished by their program."));
    }
    if !profile.clock.is_known() {
        lines.push("The length of a tick is not known: one is taken for 1 ns.".to_owned());
    }
    if profile.backwards > 0 {
        let count = fmt::count(profile.backwards);
        lines.push(format!("{count} times a thread's clock went backwards."));
    }
    lines
}
