// SPDX-License-Identifier: Apache-2.0 OR MIT
// A shop in a cluster of Node, four workers: shop.js PORT objects|file FOLDER
// Each worker makes a catalogue of its own, or reads what it shows from a file that the primary wrote.
const cluster = require("cluster"), fs = require("fs"), http = require("http");
const [port, how, folder] = process.argv.slice(2);
const file = `${folder}/catalogue`;

const category = (c) => Array.from({ length: 100 }, (_, n) => ({
  id: [c, n], name: `item ${n} of category ${c}`, price: (c * 100 + n) % 97 + 0.5,
  tags: [1, 2, 3, 4].map((i) => `tag${(c * i + n) % 1000}`), stock: { here: (c + n) % 100, there: n },
}));
const page = (number, items) => `<html><h1>Category ${number}</h1><table>${items.filter((item) => item.stock.here >= 80)
  .map((item) => `<tr><td>${item.name}<td>${item.price.toFixed(2)}<td>${item.tags.join(", ")}<td>${item.stock.here}</tr>`)
  .join("\n")}</table></html>`;

if (cluster.isPrimary) {
  if (how === "file") {
    const parts = Array.from({ length: 1000 }, (_, c) => Buffer.from(JSON.stringify(category(c))));
    fs.writeFileSync(file, Buffer.concat(parts));
    fs.writeFileSync(`${file}.sizes`, JSON.stringify(parts.map((part) => part.length)));
  }
  for (let worker = 0; worker < 4; worker++) cluster.fork();
} else {
  let items;
  if (how === "file") {
    const open = fs.openSync(file), sizes = JSON.parse(fs.readFileSync(`${file}.sizes`)), starts = [0];
    for (const size of sizes) starts.push(starts.at(-1) + size);
    items = (number) => {
      const bytes = Buffer.allocUnsafe(sizes[number]);
      fs.readSync(open, bytes, 0, bytes.length, starts[number]);
      return JSON.parse(bytes);
    };
  } else {
    const catalogue = Array.from({ length: 1000 }, (_, c) => category(c));
    items = (number) => catalogue[number];
  }
  http.createServer((request, response) => {
    const number = Number(request.url.slice(1));
    response.end(page(number, items(number)));
  }).listen(port, "127.0.0.1");
}
