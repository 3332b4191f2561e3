-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- lua5.3 tables.lua RUNS: 400,000 small tables are walked in the order in which they were made, and one
-- field of each is written, RUNS times, each between two marks (../marks.c).
local kill = require("posix.signal").kill
local getpid = require("posix.unistd").getpid

local tables = {}
for i = 1, 400000 do tables[i] = { i, i + 1 } end
for run = 1, tonumber(arg[1]) do
	kill(getpid(), 40)
	for i = 1, #tables do tables[i][1] = run + i end
	kill(getpid(), 41)
end
