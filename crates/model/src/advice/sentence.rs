// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The advice in one plain sentence.

use cowlab_schema::fmt::{quantity, time};

use super::{Advice, Choice, Forecast, Means, WORTH};

/// What a fork costs now, and what would help most. `measured_ns`: its stops, where they were seen: of
/// these nothing is predicted.
pub fn sentence(advice: &[Advice], name: &str, measured_ns: Option<f64>) -> String {
    let forecast = |one: &Advice| one.forecast.clone().ok();
    let Some(now) = advice.iter().find(|one| one.choice == Choice::AsItIs).and_then(forecast)
    else {
        return format!("What a fork costs {name} here cannot be said.");
    };
    let stop_ns = measured_ns.unwrap_or(now.stop_ns.value);
    let stop = match measured_ns {
        Some(ns) => format!("{}, as measured", time(ns)),
        None => {
            let [value, low, high] = [stop_ns, now.stop_ns.low, now.stop_ns.high].map(time);
            format!("{value} ({low} to {high}) here")
        }
    };
    let mut text = format!(
        "A fork stops {name} for {stop}, and the writes after it cost {} and {} of memory",
        time(now.writes_ns.value),
        quantity(now.extra_bytes.value, "bytes")
    );
    let gain = best(advice).map(|(one, then)| {
        let less = |from: f64, to: f64| format!("{:.0}% less", (1.0 - to / from) * 100.0);
        let [stop, writes] = [then.stop_ns.value, then.writes_ns.value];
        // Two gains in one figure would hide the stop's behind long writes.
        match stop < stop_ns * (1.0 - WORTH) {
            true => format!(
                "; {} would shorten the stop to {}, {}, and the writes would cost {}",
                one.what,
                time(stop),
                less(stop_ns, stop),
                time(writes)
            ),
            false => format!(
                "; {} would make the writes cost {}, {}, and would not shorten the stop",
                one.what,
                time(writes),
                less(now.writes_ns.value, writes)
            ),
        }
    });
    text += &gain.unwrap_or_else(|| "; no setting would save a tenth of it".to_owned());
    text.push('.');
    text
}

/// What an operator can take today, on this kernel, without changing the program: what takes least comes
/// first, and of that what saves most. `None` where nothing saves a tenth.
pub fn best(advice: &[Advice]) -> Option<(&Advice, Forecast)> {
    let forecast = |one: &Advice| one.forecast.clone().ok();
    let now = advice.iter().find(|one| one.choice == Choice::AsItIs).and_then(forecast)?;
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
    // What takes more is not worth naming before what takes less, if that shortens the stop.
    let total = total.filter(|(one, _)| {
        stop.as_ref().is_none_or(|(other, _)| one.choice.means() <= other.choice.means())
    });
    total.or(stop)
}
