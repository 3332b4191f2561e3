// SPDX-License-Identifier: Apache-2.0 OR MIT
// Objects that are changed while a child holds what they were: examples/footprints/marks.c forks it.
const rows = [];
for (let i = 0; i < 400000; i++) rows.push({ id: i, name: `row ${i}`, seen: 0.5 });
process.kill(process.pid, 40);
setTimeout(() => {
  for (let round = 0; round < 3; round++)
    for (const row of rows) { row.seen += 1.5; row.name = row.name + "."; }
  process.kill(process.pid, 41);
  setTimeout(() => process.exit(0), 50);
}, 50);
