# SPDX-License-Identifier: Apache-2.0 OR MIT
# ruby workers.rb RUNS: 200,000 strings and arrays in a parent; every seventh is written and all is marked,
# RUNS times, each between two marks (../marks.c).
orders = Array.new(200_000) { |i| ["order #{i}", [i, i + 1]] }
ARGV[0].to_i.times do |run|
  Process.kill(40, Process.pid)
  orders.each_with_index { |(_, lines), i| lines[0] = run if i % 7 == 0 }
  GC.start
  Process.kill(41, Process.pid)
end
