-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- luajit words.lua RUNS: a table of 300,000 names; 40,000 of them, at random, get another value and 2,000
-- a longer name, RUNS times, each between two marks (../marks.c).
local ffi = require("ffi")
ffi.cdef("int kill(int pid, int sig); int getpid(void);")
local names, values = {}, {}
for i = 1, 300000 do
	names[i] = "name" .. i
	values[names[i]] = { count = i, at = i / 3 }
end
math.randomseed(1988)
for run = 1, tonumber(arg[1]) do
	ffi.C.kill(ffi.C.getpid(), 40)
	for _ = 1, 40000 do
		local of = values[names[math.random(#names)]]
		of.count, of.at = of.count + run, run / 7
	end
	for i = 1, 2000 do values["more" .. i % 500] = { count = run, at = i } end
	ffi.C.kill(ffi.C.getpid(), 41)
end
