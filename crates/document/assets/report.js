// SPDX-License-Identifier: Apache-2.0 OR MIT
// Shows the figures of the mark that is nearest to the pointer or finger.
(() => {
  "use strict";
  const REACH_PX = 24;
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;

  function nearest(area, x, y) {
    let best = null;
    let least = REACH_PX;
    for (const mark of area.querySelectorAll("[data-t]")) {
      const box = mark.getBoundingClientRect();
      const outside = Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
      // Of marks that lie on each other the one whose middle is nearer.
      const middle = Math.hypot(box.left + box.width / 2 - x, box.top + box.height / 2 - y);
      const distance = outside + middle / 1000;
      if (distance < least) [best, least] = [mark, distance];
    }
    return best;
  }

  function show(event) {
    const area = event.target.closest?.("svg.area");
    const mark = area && nearest(area, event.clientX, event.clientY);
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.t;
    const box = mark.getBoundingClientRect();
    const left = Math.min(box.left + box.width / 2 + 10, innerWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 6;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above < 0 ? box.bottom + 6 : above}px`;
  }

  addEventListener("pointermove", show);
  addEventListener("pointerdown", show);
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();
