-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Most of the language and its libraries: errors (longjmp), coroutines, metatables, goto, closures,
-- string patterns, integer and float arithmetic, garbage collection, load.
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print(fib(18))

local Point = {}
Point.__index = Point
Point.__add = function(a, b) return setmetatable({x = a.x + b.x}, Point) end
Point.__eq = function(a, b) return a.x == b.x end
Point.__lt = function(a, b) return a.x < b.x end
Point.__concat = function(a, b) return tostring(a) .. tostring(b) end
Point.__tostring = function(p) return "(" .. p.x .. ")" end
Point.__close = function() print("closed") end
Point.__gc = function() end
local sum = setmetatable({x = 0}, Point)
for i = 1, 300 do sum = sum + setmetatable({x = i}, Point) end
print(sum .. sum, sum == sum, sum < sum)
do local guard <close> = sum end

local failures = 0
for i = 1, 200 do
  local ok, message = pcall(function()
    if i % 3 == 0 then error({code = i}) end
    if i % 5 == 0 then error("five " .. i) end
    if i % 7 == 0 then local nothing; return nothing.field end
    return string.rep("x", i)
  end)
  if not ok then failures = failures + 1; if type(message) == "string" then print(message) end end
end
print(failures)

local function generate(n) return coroutine.wrap(function()
  for i = 1, n do
    for j = 1, 3 do coroutine.yield(i * j) end
  end
end) end
local total = 0
for value in generate(200) do total = total + value end
print(total)

local words = {}
for word in ("the quick brown fox jumps over the lazy dog "):rep(40):gmatch("%a+") do
  words[#words + 1] = word:upper():reverse()
end
table.sort(words)
print(#words, table.concat(words, ",", 1, 12))
print((("a=1, b=22, c=333"):gsub("(%w)=(%d+)", "%2=%1")))
print(string.format("%5.2f|%-8s|%q|%x|%g", 3.14159, "left", "quo\"te\n", 255, 1e100))
print(("x"):rep(3, "-"), ("hello"):byte(1, -1))
print(string.pack("<i4z", 77, "end"):len(), string.unpack("<i4", string.pack("<i4", -5)))
print(utf8.char(228, 8364), utf8.len("äß€"))

for i = 1, 50 do
  local chunk = assert(load("local a = ... ; return a * " .. i .. " // 3 % 7 ~ 5 & 6 << 1"))
  total = total + chunk(i)
end
print(total, math.maxinteger + 1 == math.mininteger, 7 // 2, -7 % 3, 2 ^ 10, 10 / 4)
print(math.floor(-3.5), math.fmod(7, 3), math.type(1), math.tointeger(4.0))
local copy = {table.unpack({1, 2, 3}, 1, 3)}
table.insert(copy, 2, 9); table.remove(copy, 1); table.move(copy, 1, 3, 2)
print(table.concat(copy, " "), select("#", table.unpack(copy)))
for i = 1, 3 do
  for j = 1, 3 do if j == 2 then goto continue end; print(i, j) ::continue:: end
end
local dumped = string.dump(fib)
print(load(dumped, "dumped", "b") ~= nil, load("syntax error here") == nil)
local big = {}
for i = 1, 20000 do big[i] = {i, tostring(i)} end
big = nil
collectgarbage()
collectgarbage("generational")
for i = 1, 2000 do local _ = {i} end
collectgarbage("incremental")
print(collectgarbage("count") > 0, pcall(string.rep, "x", -1))
