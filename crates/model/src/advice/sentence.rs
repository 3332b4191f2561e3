// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The advice in one plain sentence.

use cowlab_schema::fmt::{quantity, time};

use super::{Advice, Choice, Forecast, Means, WORTH};

/// What a fork costs now, and what would help most.
pub fn sentence(advice: &[Advice], name: &str) -> String {
    let forecast = |one: &Advice| one.forecast.clone().ok();
    let Some(now) = advice.iter().find(|one| one.choice == Choice::AsItIs).and_then(forecast)
    else {
        return format!("What a fork costs {name} here cannot be said.");
    };
    let mut text = format!(
        "A fork stops {name} for {} ({} to {}) here, and the writes after it cost {} and {} of memory",
        time(now.stop_ns.value),
        time(now.stop_ns.low),
        time(now.stop_ns.high),
        time(now.writes_ns.value),
        quantity(now.extra_bytes.value, "bytes")
    );
    // What an operator can take today, on this kernel, without changing the program: what takes least
    // comes first.
    let best = |measure: fn(&Forecast) -> f64| {
        advice
            .iter()
            .filter(|one| one.choice.means() <= Means::Setting)
            .filter_map(|one| Some((one, forecast(one)?)))
            .filter(|(_, then)| measure(then) < measure(&now) * (1.0 - WORTH))
            .min_by(|a, b| {
                let means = |one: &Advice| one.choice.means();
                means(a.0).cmp(&means(b.0)).then(measure(&a.1).total_cmp(&measure(&b.1)))
            })
    };
    let total = best(Forecast::time_ns);
    let stop = best(|forecast| forecast.stop_ns.value);
    let less = |from: f64, to: f64| format!("{:.0}% less", (1.0 - to / from) * 100.0);
    // What takes more is not worth naming before what takes less, if that shortens the stop.
    let total = total.filter(|(one, _)| {
        stop.as_ref().is_none_or(|(other, _)| one.choice.means() <= other.choice.means())
    });
    match (total, stop) {
        (Some((one, then)), _) => {
            text += &format!(
                "; {} would make that {} and {}, together {}",
                one.what,
                time(then.stop_ns.value),
                time(then.writes_ns.value),
                less(now.time_ns(), then.time_ns())
            )
        }
        (None, Some((one, then))) => {
            text += &format!(
                "; {} would shorten the stop to {}, {}, and the writes would cost {}",
                one.what,
                time(then.stop_ns.value),
                less(now.stop_ns.value, then.stop_ns.value),
                time(then.writes_ns.value)
            )
        }
        (None, None) => text += "; no setting would save a tenth of it",
    }
    text.push('.');
    text
}
