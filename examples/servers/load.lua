-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- wrk's requests, and what it prints at the end.
math.randomseed(1988)

function request()
	return wrk.format("GET", "/" .. math.random(0, 999))
end

function done(summary, latency)
	local errors = 0
	for _, count in pairs(summary.errors) do
		errors = errors + count
	end
	print(string.format('{"rps": %.1f, "p99_ms": %.3f, "errors": %d}',
		summary.requests / summary.duration * 1e6, latency:percentile(99) / 1e3, errors))
end
