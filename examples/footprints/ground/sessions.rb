# SPDX-License-Identifier: Apache-2.0 OR MIT
# ruby sessions.rb RUNS: a hash of 120,000 sessions; 12,000 of them, at random, get another state and a new
# entry, RUNS times, each between two marks (../marks.c).
random = Random.new(1988)
sessions = (0...120_000).to_h { |i| ["session #{i}", { state: "new", entries: [i] }] }
ARGV[0].to_i.times do |run|
  Process.kill(40, Process.pid)
  12_000.times do
    session = sessions["session #{random.rand(120_000)}"]
    session[:state] = "run #{run}"
    session[:entries] = [run, session[:entries][0]]
  end
  Process.kill(41, Process.pid)
end
